"""What one provider's protocol says, in another one's words: requests, answers, streams."""
