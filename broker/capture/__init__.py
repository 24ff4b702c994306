"""
What an agent says to its model, seen while it passes, and kept.

In the order to read them:

- ``http1``         heads and bodies of HTTP/1.1, followed without being changed
- ``tape``          a body as it passes: its digest, its length, and its bytes for the record
- ``upstream``      where the person's own model is, and how it is reached
- ``proxy``         the server on loopback that an agent asks in place of its model
- ``wires``         what requests and answers of four protocols say
- ``conversation``  which conversation a request belongs to, and what in it is new
- ``scribe``        the one thread that writes into the run's trace
- ``redirect``      how each agent is pointed at the server, for one run
- ``recording``     what the recording of one run is made of, and when it begins and ends
"""
