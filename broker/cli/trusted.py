"""
Which public keys are trusted where a person names none: this installation's, of now and before.

Decided here: that a key of before counts because the ledger leads from it to the one in use, and
that it vouches for no session that began after it was changed. Not decided here: what a rotation
is (``broker.receipt.keyring``).

Rule a maintainer keeps: where there is no secret, or the ledger does not verify, the pinned key
alone is trusted. Nothing is believed for lying in the archive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.errors import BrokerError

if TYPE_CHECKING:
    from broker.home import Home
    from broker.receipt.signing import VerifyKey


def trusted_keys(home: Home, sid: str | None = None) -> tuple[VerifyKey, ...]:
    """
    Return the public keys that may have signed an export, the one in use last.

    Args:
        home: the installation.
        sid: the session that it is of, if that is known.

    Raises:
        UnverifiableError: there is no public key here.
    """
    from broker.cli.wires import installation_key
    from broker.receipt import Receipts
    from broker.receipt.keyring import Keyring, public_key

    pinned = public_key(home)
    try:
        receipts = Receipts(home, installation_key(home))
        book = receipts.ledger.read()
        keyring = Keyring.of(receipts.key.kid, pinned, book.rotations)
        listed = None if sid is None else book.sessions.get(sid)
        return keyring.publics if listed is None else keyring.vouching(listed.under)
    except BrokerError:
        return (pinned,)
