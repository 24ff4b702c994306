"""
Receipts: the signed, append-only record of what a session was allowed and refused.

The rooms, from the ground up:

- ``disk``    which files are safe to believe, and the durable calls
- ``keys``    the secret, and HMAC with labels
- ``merkle``  the root over all lines
- ``entry``   what a line may hold, and its one spelling
- ``chain``   what the next line must be
- ``head``    how many lines are acknowledged
- ``verify``  the verdict
- ``writer``  one receipt, open for appending
- ``store``   all receipts of an installation
- ``display`` printing what was recorded

Importing this package imports none of them; a name is loaded when it is first used.

>>> import broker.receipt
>>> broker.receipt.Receipts.__name__
'Receipts'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.errors import Break
    from broker.receipt.entry import Entry
    from broker.receipt.keys import Key, load_key, load_or_create_key, sign
    from broker.receipt.store import Receipts, SessionInfo
    from broker.receipt.verify import Verdict, read_entries, verify
    from broker.receipt.writer import Receipt

__all__ = (
    "Break",
    "Entry",
    "Key",
    "Receipt",
    "Receipts",
    "SessionInfo",
    "Verdict",
    "load_key",
    "load_or_create_key",
    "read_entries",
    "sign",
    "verify",
)

_HOMES = {
    "Break": "broker.errors",
    "Entry": "broker.receipt.entry",
    "Key": "broker.receipt.keys",
    "Receipt": "broker.receipt.writer",
    "Receipts": "broker.receipt.store",
    "SessionInfo": "broker.receipt.store",
    "Verdict": "broker.receipt.verify",
    "load_key": "broker.receipt.keys",
    "load_or_create_key": "broker.receipt.keys",
    "read_entries": "broker.receipt.verify",
    "sign": "broker.receipt.keys",
    "verify": "broker.receipt.verify",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return getattr(import_module(_HOMES[name]), name)
