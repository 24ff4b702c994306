"""What one session keeps: its folder, tickets, records, and what a killed one has left."""
