"""The real agents: how each is launched under a ticket, a room each, and what they share."""
