"""
What an agent says and does, recorded while it runs.

What it does to the world around it, in the order to read them:

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
"""
