"""
The agreement of the key that a rotation hands over to.

Decided here: what it is a tag over. Not decided here: which row carries it (``book``), and when
keys are changed (``rotation``).

The row is signed by the outgoing key. Were that all, anyone could make a ledger of his own that
ends at our key, since a key's name is public: he would hand over to it. So the incoming key signs
what is handed over, too: the names of the keys, and by the hash of the row before every row there
is, so that its agreement cannot be moved to another ledger by who has stolen the outgoing key.
"""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest
from typing import Final

from broker.errors import Break
from broker.receipt.entry import canonical
from broker.receipt.form import LEDGER
from broker.receipt.keys import Key

NAMES: Final = ("kid_from", "kid_to", "vkey_from", "vkey_to")
_LABEL: Final = f"{LEDGER.name} handover"


def agreement(incoming: Key, data: Mapping[str, object], before: str) -> str:
    """
    Return the tag by which a key agrees to take over.

    Args:
        incoming: the key that rows are signed with from there on.
        data: what the row says; its four names are signed.
        before: the hash of the row before it.
    """
    names = {"before": before, **{name: data[name] for name in NAMES}}
    return incoming.mac(_LABEL, LEDGER.name).tag(canonical(names).encode())


def check_agreed(incoming: Key, data: Mapping[str, object], before: str) -> None:
    """
    Check that the key a row hands over to has agreed.

    Raises:
        Break: it has not (``kid``).
    """
    if not compare_digest(agreement(incoming, data, before), str(data["agreed"])):
        raise Break("kid", "a rotation hands over to a key that did not agree to it")
