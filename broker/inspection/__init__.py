"""
What a harness is made of, told without running it.

- ``report``     the report: capabilities, what is registered, settings, ticket, rules, catalogs
- ``workspace``  the configuration that a workspace brings, listed and never executed
"""
