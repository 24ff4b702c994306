"""A gateway in front of MCP servers: what a client asks of one is held to the ticket."""
