"""
The recording of a run: what is kept of it, and how it is read again.

A run is a folder in the public Orca trace format v0, so that the readers of others read it too. In
the order to read this room:

- ``wellformed`` whether a value of a file is what a format asks for
- ``format``     what a line and a reference to a payload are
- ``manifest``   what is said of a whole run, and which versions are read
- ``safefiles``  opening a file of a run without following anything that is not one
- ``blobs``      payloads in files that are named by their content
- ``about``      what is known of a run when it begins
- ``hiding``     secrets out of whatever is about to be written
- ``writer``     the one who writes a run
- ``stamps``     when it happened
- ``bodies``     a value as what changed in it, and the value again
- ``requests``   requests to models, each kept as what is new in it
- ``reader``     the one who reads a run, and says what is wrong with it
- ``graph``      turns, checkpoints, and what led to what
- ``summary``    a run in a few figures
- ``runs``       the runs of an installation
- ``join``       executions and the decisions that let them run
- ``wire``       what a harness meant to send, and what went over the wire
- ``checking``   whether a run is whole in itself
- ``rest``       whether a run is over
- ``scrub``      taking a text out of a run that is over
- ``sweep``      which runs may go
- ``page``       a run as one file that a person reads

A trace is no proof: whoever can write a run can write all of it anew. The receipt is the proof, and
``join`` holds the two against each other.
"""
