"""The real agents: how each is launched under a ticket, one module each."""
