"""Cline CLI: its plugin, whose call it is, and how a run of it is held."""
