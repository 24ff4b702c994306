"""
The seven ways in which the harness reaches the world, each of them given from outside.

In the order to read them: ``clock``, ``fs`` (with ``memory``, its fake), ``process``,
``credentials``, ``browser`` (with
``web``), ``transcription``, ``terminal``, and ``bundle``, which holds one of
each. Every capability is a protocol, a real one and a deterministic fake, and says by ``kind``
which of them it is.

A rule a maintainer keeps: nothing here decides whether something may be done; the ticket and the
permission rules have said so before. A test holds that ``broker.harness`` has no other way out.
"""
