"""
A small reference agent: real tools, a scripted model, and every call held to a ticket.

It shows where a session belongs in an agent: between the model's tool call and the tool. The
model is a script, so that a run is the same every time and needs no provider; the tools, the
session, the ticket and the receipt are the real ones.

In the order to read them: ``gate`` (one call, from the model to its result), ``agent`` (the
loop), ``held`` (the session behind the gate), ``tools`` with ``files``, ``shell`` and ``web``,
``script`` (the model), ``show`` (a run in lines).
"""
