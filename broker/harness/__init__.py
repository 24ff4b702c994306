"""
A small reference agent: real tools, a scripted model, and every call held to a ticket.

It shows where a session belongs in an agent: between the model's tool call and the tool. The
model is a script, so that a run is the same every time and needs no provider; the tools, the
session, the ticket and the receipt are the real ones. It reaches the world only through
``broker.capabilities``, which it is given.

In the order to read them: ``pipeline`` (one call, from the model to its result) with ``passing``,
``execution``, ``snapshot``, ``schemas``, ``hooks``, ``workers``, ``approval`` and ``spill``;
``registry`` with ``items`` (what there is to call); ``composition`` with ``projecthooks`` and
``trust`` (what a run is made of); ``held`` (the session behind it); ``agent`` (the loop) with
``verify``; ``tools`` with ``files``, ``shell`` and ``web``; ``script`` (the model), ``show`` (a run
in lines), ``outcome`` and ``exits`` (how it ends).
"""
