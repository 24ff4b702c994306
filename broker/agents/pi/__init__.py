"""pi, held to its ticket by an extension of its own process."""
