"""Data, not code: the named scopes that ship with the broker. See ``broker.policy``."""
