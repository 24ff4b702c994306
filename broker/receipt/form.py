"""
The forms a signed chain of lines comes in: a session's receipt, and the ledger of all of them.

Decided here: the names, labels and kinds that tell one form from another. Not decided here:
what a line is and what follows it (``chain``), which files there are (``store``, ``ledger``).

Rule a maintainer keeps: no two forms share a label, so no line, link or head of one can ever
be presented as that of another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

OPEN: Final = "open"
RECOVER: Final = "recover"
SEAL: Final = "seal"


@dataclass(frozen=True, slots=True)
class Form:
    """
    One form of chain.

    Args:
        name: what the open line says, and the root of every label.
        appended: the kinds that callers write.
        own: the kinds that the chain writes by itself.

    >>> RECEIPT.line_label, LEDGER.head_label
    ('receipt/1 line', 'ledger/1 head')
    """

    name: str
    appended: frozenset[str]
    own: frozenset[str]
    kinds: dict[bytes, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kinds = {kind.encode(): kind for kind in (*sorted(self.appended), *sorted(self.own))}
        object.__setattr__(self, "kinds", kinds)

    @property
    def line_label(self) -> str:
        """Under which lines are signed."""
        return f"{self.name} line"

    @property
    def head_label(self) -> str:
        """Under which head slots are signed."""
        return f"{self.name} head"

    @property
    def genesis_label(self) -> str:
        """Under which the link of line 0 is made."""
        return f"{self.name} genesis"


RECEIPT: Final = Form(
    "receipt/1",
    frozenset(
        (
            "decision",
            "delegate",
            "dropped",
            "intent",
            "note",
            "permission",
            "redact",
            "result",
            "revoke",
            "ticket",
        )
    ),
    frozenset((OPEN, RECOVER, SEAL)),
)
LEDGER: Final = Form(
    "ledger/1",
    frozenset(("adopt", "anchor", "begin", "end", "head", "redact", "retire", "rotate")),
    frozenset((OPEN, RECOVER)),
)
