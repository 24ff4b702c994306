"""Data, not code: the grammar of scope texts. See ``broker.scope``."""
