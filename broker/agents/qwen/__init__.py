"""Qwen Code: its hook, and how a run of it is held."""
