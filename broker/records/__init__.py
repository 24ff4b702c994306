"""
The records of a harness: what it asked its models, what they answered, and what became of calls.

Each model call is recorded at the transport, at the last point before its bytes leave, so that a
record exists of every one of them, whoever in the harness made it, and says what was really sent.
A receipt proves what was allowed; a record tells what was said. In the order to read them:

- ``model``      the three records and their canonical form
- ``apis``       which API a request speaks, and what an answer tells
- ``failures``   why a call failed, in eight words
- ``turns``      turns and attempts, from the records alone
- ``pieces``     a body in pieces, so that a resent conversation costs nothing
- ``store``      the folder of one session's records
- ``recorder``   what ties a request to its answer
- ``transport``  the recorder below the official clients, sync and async
- ``audits``     the record of a call whose arguments were changed, or that was stopped

A rule a maintainer keeps: nothing here is ever shown to a model.
"""
