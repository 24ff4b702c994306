"""
Which formats a receipt can be exported to, and how each is made from a source.

Decided here: the names a person types, and which formats need a key that signs. Not decided
here: what a format looks like (its own module).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.errors import InputError
from broker.export import aat, agent_receipts, intoto, otel, spreadsheet
from broker.export.source import Source
from broker.receipt.signing import SigningKey

IN_TOTO: Final = "in-toto"
AGENT_RECEIPTS: Final = "agent-receipts"
AAT: Final = "aat"
OTEL: Final = "otel"
CSV: Final = "csv"
BUNDLE: Final = "bundle"

FORMATS: Final = (IN_TOTO, AGENT_RECEIPTS, AAT, OTEL, CSV)
SIGNED: Final = frozenset((IN_TOTO, AGENT_RECEIPTS))


def plain(name: str, source: Source) -> Iterator[bytes]:
    """Return the pieces of an export that nobody signs, made as they are read."""
    if name == AAT:
        return aat.records(source, source.sid)
    if name == OTEL:
        return otel.batches(source, source.sid)
    return spreadsheet.rows(source)


def pieces(name: str, source: Source, *, signer: SigningKey | None, at: int) -> Iterator[bytes]:
    """
    Yield the pieces of an export, made as they are read: nothing is held back but one record.

    Args:
        name: one of ``FORMATS``.
        source: the receipt.
        signer: signs the formats of ``SIGNED``.
        at: the instant of the export, in nanoseconds.

    Raises:
        Break, UnverifiableError: the receipt does not verify; what came before was authentic.
        InputError: there is nothing in it that the format could say.
    """
    if name not in SIGNED:
        yield from plain(name, source)
        return
    assert signer is not None, f"{name} is signed"  # noqa: S101  the caller's own mistake
    if name == IN_TOTO:
        yield intoto.envelope(source, signer)
        return
    count = 0
    for receipt in agent_receipts.receipts(source, source.sid, signer.public.public, at):
        count += 1
        yield agent_receipts.signed(receipt, signer)
    if not count:
        raise InputError("the session decided no call, so there is no action to export")
