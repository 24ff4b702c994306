"""A statement about a receipt: of the standard's form, signed, and of that receipt only."""

from __future__ import annotations

import json
from base64 import b64decode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from broker.errors import Break, LimitError
from broker.export import intoto
from broker.export.dsse import seal_envelope
from broker.receipt.entry import canonical
from broker.receipt.merkle import Frontier
from broker.receipt.signing import SigningKey
from tests import exportkit
from tests.exportkit import LINES, SID, SIGNER, home_at, session, source_of

KEYS = [SIGNER.public]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The receipt of a sealed session."""
    return session(home_at(tmp_path))


@pytest.fixture
def envelope(path: Path, tmp_path: Path) -> bytes:
    """The signed statement about it."""
    return intoto.envelope(source_of(home_at(tmp_path)), SIGNER)


def payload(envelope: bytes) -> dict[str, Any]:
    """Return what an envelope holds, unverified."""
    return json.loads(b64decode(json.loads(envelope)["payload"]))


def resigned(envelope: bytes, **changes: object) -> bytes:
    """Sign a changed statement, as the holder of the key can."""
    statement = canonical({**payload(envelope), **changes}).encode()
    return seal_envelope(statement, intoto.PAYLOAD_TYPE, SIGNER)


def reason(envelope: bytes) -> str:
    """Return why an envelope is no statement."""
    with pytest.raises(Break) as caught:
        intoto.open_statement(envelope, KEYS)
    return caught.value.reason


def test_the_form_is_the_standard_s(envelope: bytes, path: Path) -> None:
    """Type, subject and predicate stand where Statement v1 wants them, in canonical JSON."""
    statement = payload(envelope)
    assert set(statement) == {"_type", "predicate", "predicateType", "subject"}
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert json.loads(envelope)["payloadType"] == "application/vnd.in-toto+json"
    (subject,) = statement["subject"]
    assert subject["digest"] == {"sha256": sha256(path.read_bytes()).hexdigest()}
    assert subject["name"] == f"{SID}/receipt.jsonl"
    assert rfc8785.dumps(statement) == b64decode(json.loads(envelope)["payload"])


def test_the_predicate_tells_the_session(envelope: bytes, path: Path) -> None:
    """Who, what was typed, what was granted, every decision, and what was verified."""
    told = payload(envelope)["predicate"]
    lines = path.read_bytes().split(b"\n")[:-1]
    tree = Frontier()
    for line in lines:
        tree.append(line)
    assert told["session"]["id"] == SID
    assert told["session"]["agent"] == "claude-code"
    assert told["intent"]["line"].startswith("tidy up")
    assert told["ticket"] == {"caveats": ["tools=read_file", "calls=3"], "id": "t1"}
    assert told["verification"]["state"] == "SEALED"
    assert told["verification"]["completeness"] == "KNOWN"
    assert told["receipt"]["root"] == tree.root().hex()
    assert (told["receipt"]["lines"], told["receipt"]["bytes"]) == (LINES, len(path.read_bytes()))
    assert told["receipt"]["seal"]["reason"] == "complete"
    decisions = told["decisions"]
    assert (decisions["allowed"], decisions["refused"], decisions["listed"]) == (2, 1, True)
    assert [each["line"] for each in decisions["items"]] == [3, 5, 7]
    for each in decisions["items"]:
        assert each["sha256"] == sha256(lines[each["line"]]).hexdigest()


def test_it_is_of_its_receipt_and_no_other(envelope: bytes, path: Path, tmp_path: Path) -> None:
    """The statement fits the file it was made from, cut in any pieces, and no other file."""
    statement = intoto.open_statement(envelope, KEYS)
    content = path.read_bytes()
    assert intoto.compare(statement, [content]) == 0
    assert intoto.compare(statement, [content[:7], content[7:100], content[100:]]) == 0
    other = session(home_at(tmp_path), "abc2", more=1).read_bytes()
    for wrong in (other, content[:-1], content + b"x", b"", content.replace(b"claude", b"Claude")):
        with pytest.raises(Break) as caught:
            intoto.compare(statement, [wrong])
        assert caught.value.reason == "subject"


def test_an_open_receipt_may_grow(tmp_path: Path) -> None:
    """A statement about an open session still fits when lines were added, and says how much."""
    home = home_at(tmp_path)
    content = session(home, "open", seal=None).read_bytes()
    statement = intoto.open_statement(intoto.envelope(source_of(home, "open"), SIGNER), KEYS)
    assert intoto.compare(statement, [content]) == 0
    assert intoto.compare(statement, [content + b"more\n"]) == 5
    with pytest.raises(Break):
        intoto.compare(statement, [b"x" + content[1:] + b"more\n"])


def test_what_is_not_such_a_statement(envelope: bytes) -> None:
    """A statement of another type, about nothing or about several things, is refused."""
    told = payload(envelope)
    (subject,) = told["subject"]
    for changes in (
        {"_type": "https://in-toto.io/Statement/v0.1"},
        {"predicateType": "https://slsa.dev/provenance/v1"},
        {"subject": []},
        {"subject": [subject, subject]},
        {"subject": [{**subject, "digest": {"sha256": "AB" * 32}}]},
        {"subject": [{**subject, "digest": {"sha512": "ab" * 64}}]},
        {"predicate": {}},
        {"predicate": {"receipt": {"bytes": 0, "seal": None}}},
    ):
        assert reason(resigned(envelope, **changes)) == "dsse"


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b"[" * 5_000, b'{"a": 1}'])
def test_a_payload_that_is_no_statement(content: bytes) -> None:
    """Whatever else was signed under that type is a break, never a fault of the reader."""
    assert reason(seal_envelope(content, intoto.PAYLOAD_TYPE, SIGNER)) == "dsse"


def test_only_a_pinned_key_counts(envelope: bytes) -> None:
    """A stranger's statement is refused, however well it is made."""
    stranger = SigningKey.of(bytes(range(1, 33)))
    with pytest.raises(Break):
        intoto.open_statement(envelope, [stranger.public])


def test_a_long_session_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit decisions are counted and not listed, and the statement says so."""
    home = home_at(tmp_path)
    session(home, more=5)
    monkeypatch.setattr(intoto, "MAX_LISTED", 7)
    told = payload(intoto.envelope(source_of(home), SIGNER))["predicate"]["decisions"]
    assert told == {"allowed": 7, "items": [], "listed": False, "refused": 1}
    monkeypatch.setattr(intoto, "MAX_LISTED", 8)
    told = payload(intoto.envelope(source_of(home), SIGNER))["predicate"]["decisions"]
    assert (len(told["items"]), told["listed"]) == (8, True)


@pytest.mark.parametrize(("room", "listed"), [(10_000, 3), (900, 0)])
def test_large_decisions_are_counted_too(tmp_path: Path, room: int, listed: int) -> None:
    """Few decisions that take too many bytes are not listed either."""
    home = home_at(tmp_path)
    session(home)
    story = intoto.Story(room=room)
    for line in source_of(home):
        story.take(line)
    assert (story.allowed, story.refused, len(story.listed)) == (2, 1, listed)
    assert story.complete is bool(listed)


def test_an_envelope_of_any_size_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is larger than any statement is refused before it is parsed."""
    monkeypatch.setattr(intoto, "MAX_ENVELOPE_BYTES", 10)
    with pytest.raises(LimitError):
        intoto.open_statement(b"x" * 11, KEYS)


@pytest.mark.parametrize(("key", "due"), [("beside", "t1"), ("replaces", "t9")])
def test_the_ticket_is_the_root_in_force_and_not_one_for_a_single_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, due: str
) -> None:
    """A yes to one call changes neither the ticket nor the line that a statement names."""
    later: tuple[tuple[str, dict[str, object]], ...] = (
        ("intent", {"line": "later", "digest": "ab" * 32}),
        ("ticket", {"ticket": "t9", "caveats": ["calls=7"], key: "t1"}),
    )
    monkeypatch.setattr(exportkit, "ENTRIES", (*exportkit.ENTRIES, *later))
    session(home_at(tmp_path))
    found = payload(intoto.envelope(source_of(home_at(tmp_path)), SIGNER))["predicate"]
    assert found["ticket"]["id"] == due
    assert ("later" in json.dumps(found)) == (due == "t9")
