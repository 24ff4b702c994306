"""What scopes stop of four benchmarks of attacked agents, and what they cost: see run.py."""
