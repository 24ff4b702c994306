"""Gemini CLI: its hooks, whose call it is, and how a run of it is held."""
