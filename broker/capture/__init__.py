"""
What an agent says to its model, and what it does to the world around it, recorded as it happens.

What it says, in the order to read it:

- ``http1``         heads and bodies of HTTP/1.1, followed without being changed
- ``tape``          a body as it passes: its digest, its length, and its bytes for the record
- ``upstream``      where the person's own model is, and how it is reached
- ``proxy``         the server on loopback that an agent asks in place of its model
- ``wires``         what requests and answers of four protocols say
- ``conversation``  which conversation a request belongs to, and what in it is new
- ``scribe``        the one thread that writes of model calls into the run's trace
- ``redirect``      how each agent is pointed at the server, for one run

What it does:

- ``shims``         the folder in which an agent finds shells that are recorded
- ``shellshim``     the process in a shell's place
- ``shellwatch``    the process beside it, which carries its streams
- ``door``          where shells and gateways tell what they do, and ``telling`` the way there
- ``intake``        what they may tell, and the events that it becomes
- ``withheld``      what of a workspace is not kept
- ``ignoring``      what its ``.gitignore`` files leave out
- ``gathering``     what lies in it, and what of that is new
- ``treestore``     trees in a git store of the run's own
- ``snapper``       the process that takes snapshots, and ``snapshots`` what the trace says of them
- ``restoring``     a snapshot laid out again
- ``spans``         what agent frameworks tell of their own structure
- ``network``       connections out of the sandbox
- ``world``         all of these, for one run

``recording`` is what the recording of one run is made of, and when it begins and ends.
"""
