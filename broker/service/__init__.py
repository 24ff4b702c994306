"""The decision point of one session, over a unix socket."""
