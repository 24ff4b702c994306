"""opencode, held to its ticket by a plugin of its own process."""
