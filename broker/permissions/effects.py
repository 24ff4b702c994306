"""
What kinds of effect a call has, and which of them deserve a question to the person.

Decided here: how a call's subjects become kinds of effect. Not decided here: what a mode answers
to them (``broker.permissions.modes``), and what the ticket says, which has been asked before.

Rules a maintainer keeps: a pure function of the call; what cannot be told from the arguments is an
effect of its own, and so is a kind that is new.
"""

from __future__ import annotations

from typing import Final, Literal

from broker.calls import Call

Permission = Literal["allow", "ask", "refuse"]

READ: Final = "read"
WRITE: Final = "write"
EGRESS: Final = "egress"
UNSEEN: Final = "unseen"

EFFECTS: Final = (READ, WRITE, EGRESS, UNSEEN)


def effects(call: Call) -> frozenset[str]:
    """
    Return the kinds of effect that a call has: a call that touches nothing has none.

    >>> from broker.calls import PathSubject
    >>> sorted(effects(Call("edit", paths=(PathSubject("path", "a", "write", ("a/",)),))))
    ['write']
    """
    found = {READ if subject.access == "read" else WRITE for subject in call.paths}
    if call.urls:
        found.add(EGRESS)
    if call.opaque or call.fault is not None or call.missing:
        found.add(UNSEEN)
    for inner in call.nested:
        found |= effects(inner)
    return frozenset(found)


def untrusted(call: Call) -> bool:
    """
    Return whether what a call brings back may have been written by a stranger.

    A page of the web is, and whatever comes from a tool that nobody knows. A command's output is
    not counted: a person who lets commands run has let this in, and a command whose output came
    from the network cannot be told from one whose output did not.

    >>> untrusted(Call("mcp__mail__read", opaque=True)), untrusted(Call("read"))
    (True, False)
    """
    if call.urls or call.server is not None or call.tool.startswith("mcp__"):
        return True
    if call.opaque and call.command is None:
        return True
    return any(untrusted(inner) for inner in call.nested)
