"""The demo that `make demo` plays."""
