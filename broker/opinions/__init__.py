"""
Second opinions: others who are asked about what a ticket allowed, and can only refuse.

An opinion is an AuthZEN decision point that is asked over HTTP, or a Cedar policy that is evaluated
in this process. Which there are stands in the user's own configuration (``[opinions.NAME]``) or is
typed (``broker run --opinion``), never in a workspace. See ``docs/opinions.md`` and ADR-0043.
"""
