"""Tests with real database servers, by `make test-servers`."""
