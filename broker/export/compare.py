"""
Whether an export still says what its receipt says.

Decided here: that an export is checked by making it again from the verified receipt and holding
the two against each other, record by record. So there is no second reading of any format that
could be mistaken, and no field that nobody looks at. Signed credentials are also checked without
the receipt, by their signatures and links. Not decided here: whether the receipt verifies.

Every fault is a ``Break`` with the reason ``export``, at the line and byte offset of the export.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Any, BinaryIO, Final

from broker.errors import Break, InputError
from broker.export import agent_receipts, didkey, spreadsheet
from broker.limits import MAX_RECORD_DEPTH
from broker.receipt.entry import canonical, parse_at, strict_object
from broker.receipt.signing import VerifyKey

MAX_RECORD_BYTES: Final = 128 * 2**20  # of one line of an export: OTLP holds a batch in one

Remade = Callable[[int], Iterable[agent_receipts.Receipt]]


def recognised(start: bytes) -> str:
    """
    Return the name of the format that a file's first bytes begin.

    Raises:
        InputError: they begin none.

    >>> recognised(b'"line","sha256","at","kind"')
    'csv'
    """
    if start.startswith(spreadsheet.HEADER[:20]):
        return "csv"
    for mark, name in (
        (b'{"@context":', "agent-receipts"),
        (b'{"action_detail":', "aat"),
        (b'{"payload":', "in-toto"),
        (b'{"resourceLogs":', "otel"),
    ):
        if start.startswith(mark):
            return name
    raise InputError("this is not an export: name its format with --format if you know better")


def lines_of(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of an export; never hold more than one."""
    while line := stream.readline(MAX_RECORD_BYTES):
        yield line


def compare(stream: BinaryIO, made: Iterable[bytes]) -> int:
    """
    Compare an export with what its receipt makes now; return how many lines both have.

    Raises:
        Break: they differ (``export``), or the receipt does not verify.
    """
    count = offset = 0
    for want in made:
        got = stream.readline(len(want) + 1)
        if got != want:
            raise Break("export", _difference(got), line=count, offset=offset)
        count += 1
        offset += len(want)
    if stream.read(1):
        raise Break("export", "more follows than the receipt says", line=count, offset=offset)
    return count


def _difference(got: bytes) -> str:
    if not got:
        return "the export ends here, and the receipt says more"
    return "the export does not say here what the receipt says"


def check_credentials(stream: BinaryIO, key: VerifyKey, remade: Remade | None = None) -> int:
    """
    Check signed credentials: their signatures, their links and, where it is given, their receipt.

    Args:
        stream: the export.
        key: the public key that must have signed all of them.
        remade: makes the credentials again from the receipt, for an instant of issuing.

    Raises:
        Break: where they are not what was signed and recorded (``export``).
    """
    before: dict[str, Any] | None = None
    made: Iterator[agent_receipts.Receipt] | None = None
    count = offset = 0
    for line in lines_of(stream):
        try:
            receipt = _credential(line, key)
            _check_link(receipt, before)
            if remade is not None and made is None:
                made = iter(remade(parse_at(receipt["issuanceDate"])))
        except (KeyError, TypeError, ValueError) as error:
            raise Break("export", "this is no credential", line=count, offset=offset) from error
        except Break as flaw:
            raise Break("export", flaw.message, line=count, offset=offset) from flaw
        if made is not None and next(made, None) != receipt:
            raise Break("export", _difference(line), line=count, offset=offset)
        before = receipt
        count += 1
        offset += len(line)
    if not count or (made is not None and next(made, None) is not None):
        raise Break("export", _difference(b""), line=count, offset=offset)
    return count


def _credential(line: bytes, key: VerifyKey) -> dict[str, Any]:
    """Return a credential without its proof, once the proof holds."""
    receipt = strict_object(line.decode().removesuffix("\n"), 2 * MAX_RECORD_DEPTH)
    proof = receipt.pop("proof")
    told = {**proof}
    encoded = str(told.pop("proofValue"))
    wanted = {
        "created": receipt["issuanceDate"],
        "proofPurpose": "assertionMethod",
        "type": "Ed25519Signature2020",
        "verificationMethod": agent_receipts.method(key.public),
    }
    signature = urlsafe_b64decode(encoded[1:] + "==")
    if told != wanted or receipt["issuer"]["id"] != didkey.did_key(key.public):
        raise Break("export", f"the credential is of another key than `{key.name}`")
    if encoded[:1] != "u" or not key.accepts(canonical(receipt).encode(), signature):
        raise Break("export", f"the credential was not signed by `{key.name}`")
    return receipt


def _check_link(receipt: dict[str, Any], before: dict[str, Any] | None) -> None:
    chain = receipt["credentialSubject"]["chain"]
    wanted: tuple[object, ...] = (1, None, chain["chain_id"])
    if before is not None:
        past = before["credentialSubject"]["chain"]
        last = sha256(canonical(before).encode()).hexdigest()
        wanted = (past["sequence"] + 1, f"sha256:{last}", past["chain_id"])
        if past.get("terminal"):
            raise Break("export", "something follows the credential that says it is the last")
    if (chain["sequence"], chain["previous_receipt_hash"], chain["chain_id"]) != wanted:
        raise Break("export", "the credential does not continue the one before it")
