"""Data only: the named scopes, one ``.scope`` file each. Read with ``importlib.resources``."""
