"""
Receipts: the signed, append-only record of what a session was allowed and refused.

The rooms, from the ground up:

- ``disk``    which files are safe to believe, and the durable calls
- ``keys``    the secret, and HMAC with labels
- ``merkle``  the root over all lines
- ``form``    what tells a receipt from the ledger: names, labels, kinds
- ``shapes``  recognising data that is spelled so, without parsing it
- ``entry``   what a line may hold, and its one spelling
- ``faults``   why a line is not the next one
- ``chain``    what the next line must be
- ``head``    how many lines are acknowledged
- ``scan``    walking the lines of a file, one by one or many at once
- ``segments`` sharing that among processes
- ``demand``  the levels, and what is asked for
- ``untagged`` a chain whose secret is not at hand
- ``ratchet`` a line key that moves on with every line
- ``ratchetfile`` what is kept of it between lines
- ``sealing`` its start, sealed to an auditor
- ``forward`` how such a session is verified, with the auditor and without
- ``evidence`` what is opened, in which order
- ``inspection`` every line, and who vouches for them
- ``survey``  what lies behind the first break
- ``verify``  the verdict
- ``journal`` the two files under their lock: order, recovery, failures
- ``forwardjournal`` those files and the ratchet beside them
- ``writer``  one receipt, open for appending
- ``handover`` the agreement of a key that takes over
- ``book``    what the ledger says of every session
- ``pages``   reading the ledger: which key signed which row
- ``rows``    the two files of the ledger while a row is written
- ``ledger``  the record of all sessions
- ``audit``   whether receipts keep what the ledger says of them
- ``store``   all receipts of an installation
- ``repair``  what a person may decide about a finding
- ``signing`` the key pair that anyone can verify with
- ``note``    a text and the signatures over it
- ``checkpoint`` how many lines there are and their root, signed
- ``paths``   hashes that lead from a line to the root
- ``proof``   the file that shows a line to somebody without a secret
- ``covering`` the tree over lines that somebody else wrote
- ``keyring`` which keys of an installation count
- ``rotation`` changing them
- ``display`` printing what was recorded

Importing this package imports none of them; a name is loaded when it is first used. Reach
what is not in ``__all__`` by ``from broker.receipt.verify import …``: under ``broker.receipt``
the name ``verify`` is the function.

>>> import broker.receipt
>>> broker.receipt.Receipts.__name__
'Receipts'
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as `typing` spells it, without importing it
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

# The class of the package above, which publishes lazily too.
sys.modules[__name__].__class__ = type(sys.modules["broker"])
