"""
The default permission rules that come after the ticket, for harnesses that have none of their own.

Decided here: which allowed calls still deserve a question to the person. Not decided here: what
the ticket says. The ticket only vetoes; a harness asks it first, and asks here only when it
allowed. Agents with permission rules of their own (Claude Code) keep those instead.

Rules a maintainer keeps: a pure function of the call; a ticket's refusal is never softened here;
what cannot be told from the arguments is asked about, and so is a kind of effect that is new.
"""

from __future__ import annotations

from typing import Final, Literal

from broker.calls import Call

Permission = Literal["allow", "ask"]

READ: Final = "read"
WRITE: Final = "write"
EGRESS: Final = "egress"
UNSEEN: Final = "unseen"

DEFAULTS: Final[dict[str, Permission]] = {
    READ: "allow",
    WRITE: "ask",
    EGRESS: "ask",
    UNSEEN: "ask",
}


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


def permission(call: Call, rules: dict[str, Permission] | None = None) -> Permission:
    """
    Return whether a call that the ticket allowed may run at once or needs the person's yes.

    Args:
        call: what the ticket allowed.
        rules: an answer for each kind of effect; a kind that is absent is asked about.

    >>> permission(Call("read")), permission(Call("shell", opaque=True))
    ('allow', 'ask')
    """
    answers = DEFAULTS if rules is None else rules
    asked = any(answers.get(effect, "ask") == "ask" for effect in effects(call))
    return "ask" if asked else "allow"
