"""Claude Code: its hook, its settings, and how a run of it is held."""
