"""
`broker agent`: the reference agent with a real model, at a person's terminal or without one.

It is the loop, the pipeline and the tools of ``broker.harness``, asked of a provider through its
official client. It exists to show that the boundary holds with a real model, and to be read. In
the order to read it:

- ``prompt``        what the model is told first
- ``conversation``  what was said, in words of our own
- ``dialect``       what an API must be able to tell: ``messages``, ``responses``, ``chat``
- ``providers``     where models are had, and which one a person means
- ``clients``       the official clients, over a transport that is handed in
- ``models``        the models of a run: asks, streams, counts turns
- ``past``          a conversation from the records of an earlier session
- ``servers``       MCP servers as tools
- ``sitting``       one person with one agent: sessions, one after the other
- ``slash``         what a person types as ``/name``
- ``talk``          the lines of a person, and Ctrl-C
- ``streaming``     a run on a terminal, as it comes
- ``starting``      all of it put together

``clients`` and ``servers`` reach the world by libraries of others, and ``starting`` hands them what
they need; every other module is held to the same rule as the harness, and a test reads it.
"""
