"""An export says what its receipt says, or the first place where it does not is named."""

from __future__ import annotations

import io
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Break, InputError
from broker.export import agent_receipts, formats
from broker.export.compare import check_credentials, compare, recognised
from broker.home import Home
from broker.receipt.entry import canonical
from broker.receipt.signing import SigningKey
from tests.exportkit import SID, SIGNER, home_at, session, source_of
from tests.receiptkit import AT

PLAIN = sorted(set(formats.FORMATS) - formats.SIGNED)
PUBLIC = SIGNER.public.public


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with a sealed session."""
    session(home_at(tmp_path))
    return home_at(tmp_path)


def exported(home: Home, name: str) -> bytes:
    """Return the export of the session."""
    return b"".join(formats.pieces(name, source_of(home), signer=SIGNER, at=AT))


def held(home: Home, name: str, content: bytes) -> int:
    """Hold an export against the session."""
    return compare(io.BytesIO(content), formats.plain(name, source_of(home)))


def broken(act: Callable[[], object]) -> Break:
    """Return the break that an act ends in."""
    with pytest.raises(Break) as caught:
        act()
    assert caught.value.reason == "export"
    return caught.value


@pytest.mark.parametrize("name", formats.FORMATS)
def test_each_format_is_recognised(home: Home, name: str) -> None:
    """The first bytes of an export tell its format."""
    assert recognised(exported(home, name)[:64]) == name


@pytest.mark.parametrize("start", [b"", b"{", b'{"payloadType', b"line,sha256", b"\xff"])
def test_what_is_no_export(start: bytes) -> None:
    """Other bytes are no export."""
    with pytest.raises(InputError):
        recognised(start)


@pytest.mark.parametrize("name", PLAIN)
def test_an_export_fits_its_receipt(home: Home, name: str) -> None:
    """Exporting again gives the same bytes."""
    content = exported(home, name)
    assert held(home, name, content) == content.count(b"\n")


@pytest.mark.parametrize("name", PLAIN)
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_every_bit_counts(
    tmp_path_factory: pytest.TempPathFactory, name: str, place: int, bit: int
) -> None:
    """Flipping any bit of an export is seen, at the line where it is."""
    home = scene(tmp_path_factory)
    content = bytearray(exported(home, name))
    place %= len(content)
    content[place] ^= 1 << bit
    flaw = broken(lambda: held(home, name, bytes(content)))
    before = bytes(content[:place])
    assert flaw.line <= before.count(b"\n")
    assert flaw.offset <= place


def scene(factory: pytest.TempPathFactory) -> Home:
    """Return a home that is made once: examples only read it."""
    place = factory.getbasetemp() / "compared"
    if not place.exists():
        session(home_at(place))
    return home_at(place)


@pytest.mark.parametrize("name", PLAIN)
def test_lines_taken_away_and_added(home: Home, name: str) -> None:
    """A line that is missing anywhere, doubled or added is seen at its place."""
    lines = exported(home, name).splitlines(keepends=True)
    for n in range(len(lines)):
        gone = b"".join(lines[:n] + lines[n + 1 :])
        assert broken(lambda gone=gone: held(home, name, gone)).line == n
        twice = b"".join(lines[: n + 1] + lines[n:])
        assert broken(lambda twice=twice: held(home, name, twice)).line == n + 1
    assert broken(lambda: held(home, name, b"".join(lines) + b"\n")).line == len(lines)


# ── credentials ──


def credentials(home: Home) -> list[dict[str, Any]]:
    """Return the signed credentials of the session."""
    return [json.loads(line) for line in exported(home, "agent-receipts").splitlines()]


def checked(home: Home, records: list[dict[str, Any]], *, against: bool = False) -> int:
    """Check credentials, with the receipt or without it."""
    content = b"".join(canonical(record).encode() + b"\n" for record in records)
    remade = None
    if against:

        def remade(at: int) -> Any:
            return agent_receipts.receipts(source_of(home), SID, PUBLIC, at)

    return check_credentials(io.BytesIO(content), SIGNER.public, remade)


def resigned(records: list[dict[str, Any]], signer: SigningKey = SIGNER) -> list[dict[str, Any]]:
    """Link and sign credentials anew, as a holder of a key can."""
    made: list[dict[str, Any]] = []
    for record in records:
        record.pop("proof")
        chain = agent_receipts._chain(made[-1] if made else None, SID)
        record["credentialSubject"]["chain"].update(chain)
        made.append(record)
    return [json.loads(agent_receipts.signed(record, signer)) for record in made]


def test_credentials_fit(home: Home) -> None:
    """Untouched credentials are right, by themselves and against the receipt."""
    records = credentials(home)
    assert checked(home, records) == checked(home, records, against=True) == 5


def change_outcome(records: list[dict[str, Any]]) -> None:
    records[2]["credentialSubject"]["outcome"] = {"status": "success"}


def change_name(records: list[dict[str, Any]]) -> None:
    records[0]["issuer"]["name"] = "somebody"


def change_proof(records: list[dict[str, Any]]) -> None:
    records[1]["proof"]["proofValue"] = "u" + urlsafe_b64encode(bytes(64)).decode().rstrip("=")


def change_method(records: list[dict[str, Any]]) -> None:
    records[1]["proof"]["verificationMethod"] += "x"


def change_created(records: list[dict[str, Any]]) -> None:
    records[1]["proof"]["created"] = "2026-01-01T00:00:00.000Z"


def change_encoding(records: list[dict[str, Any]]) -> None:
    records[1]["proof"]["proofValue"] = "z" + records[1]["proof"]["proofValue"][1:]


def drop_proof(records: list[dict[str, Any]]) -> None:
    del records[4]["proof"]


def drop_subject(records: list[dict[str, Any]]) -> None:
    del records[0]["credentialSubject"]


def drop_first(records: list[dict[str, Any]]) -> None:
    del records[0]


def drop_middle(records: list[dict[str, Any]]) -> None:
    del records[2]


def swap(records: list[dict[str, Any]]) -> None:
    records[1:3] = [records[2], records[1]]


def double(records: list[dict[str, Any]]) -> None:
    records.append(json.loads(json.dumps(records[-1])))


def drop_all(records: list[dict[str, Any]]) -> None:
    records.clear()


CHANGES = [
    change_outcome, change_name, change_proof, change_method, change_created, change_encoding,
    drop_proof, drop_subject, drop_first, drop_middle, swap, double, drop_all,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_changed_credentials(home: Home, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Whatever is changed without the key is seen without the receipt."""
    records = credentials(home)
    change(records)
    broken(lambda: checked(home, records))


def test_a_lost_end_is_seen_with_the_receipt(home: Home) -> None:
    """The credentials themselves cannot show a lost end; the receipt does."""
    short = credentials(home)[:-1]
    assert checked(home, short) == 4
    assert broken(lambda: checked(home, short, against=True)).line == 4


@pytest.mark.parametrize("change", [change_outcome, change_name, drop_middle, drop_first, double])
def test_changes_by_the_holder_of_the_key(
    home: Home, change: Callable[[list[dict[str, Any]]], None]
) -> None:
    """Whoever holds the signing key can make other credentials; the receipt shows that they are."""
    records = credentials(home)
    change(records)
    made = resigned(records)
    broken(lambda: checked(home, made, against=True))


def test_credentials_of_another_key(home: Home) -> None:
    """A stranger's credentials are refused, though they fit each other."""
    stranger = SigningKey.of(bytes(range(1, 33)))
    made = agent_receipts.receipts(source_of(home), SID, stranger.public.public, AT)
    content = b"".join(agent_receipts.signed(each, stranger) for each in made)
    assert check_credentials(io.BytesIO(content), stranger.public) == 5
    broken(lambda: check_credentials(io.BytesIO(content), SIGNER.public))


@pytest.mark.parametrize(
    "content", [b"\n", b"[]\n", b"{}\n", b'{"proof":1}\n', b'{"proof":{}}\n', b"\xff\n", b"[" * 999]
)
def test_what_is_no_credential(content: bytes) -> None:
    """Whatever else stands in the file is a break, never a fault of the reader."""
    broken(lambda: check_credentials(io.BytesIO(content), SIGNER.public))
