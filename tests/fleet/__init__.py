"""Receipts at a real S3 server and on a real Ray cluster, by `make test-fleet`."""
