"""Data only: ``scope.lark``, the language a person types. Read with ``importlib.resources``."""
