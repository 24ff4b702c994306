"""
What is handed to somebody else and runs without us: the one-file verifier.

Nothing of this package is imported by the rest of it, and it imports nothing of the rest: it is
written from ``docs/receipt.md`` alone, so that it can contradict us.
"""
