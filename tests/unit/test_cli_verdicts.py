"""A verification is told so that its verdict is not lost, and nothing in it deceives."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from broker.cli.verdicts import Document, broken, told
from broker.errors import Break, UnverifiableError
from broker.receipt import Entry, Verdict

PLAIN = Verdict("SEALED", "s1", 12, "KNOWN", last="ab" * 32)


def test_the_last_line_is_the_verdict() -> None:
    """Whatever there is to know stands above, indented; the verdict stands last."""
    assert told(PLAIN, notes_head=False) == [
        "verified: SEALED, 12 lines, level mac, completeness KNOWN"
    ]
    noted = replace(
        PLAIN,
        state="OPEN",
        lines=1,
        completeness="UNKNOWN",
        level="signed",
        tags="unchecked",
        fragment_bytes=3,
        signer="x/y",
        warnings=("the clock\x1b[2J went back",),
    )
    *notes, last = told(noted, notes_head=True)
    assert last == "verified: OPEN, 1 line, level signed, completeness UNKNOWN"
    assert all(note.startswith("    ") for note in notes)
    assert "\x1b" not in "".join(notes)
    for word in ("no seal yet", "3 bytes", "signed by x/y", "tags were not", "may be missing"):
        assert any(word in note for note in notes), word


def test_the_head_is_noted_only_where_it_is_known() -> None:
    """A head that nobody authenticated is not offered to be written down."""
    assert told(PLAIN, notes_head=True)[0] == f"    head 12:{'ab' * 32}"
    unchecked = replace(PLAIN, tags="unchecked", level="chain")
    assert not any("head 12" in line for line in told(unchecked, notes_head=True))


def test_an_early_seal_says_why() -> None:
    """The reason of the seal is shown."""
    early = replace(PLAIN, state="INTERRUPTED", reason="abandoned")
    assert told(early, notes_head=False)[0] == "    the seal says `abandoned`"


def test_a_break_says_where_and_how_many_more() -> None:
    """Reason, message, line and byte offset, on one line, escaped."""
    found = Break("mac", "not\nsigned", line=3, offset=88)
    assert broken(found) == "not verified (mac): not\\nsigned, at line 3, byte offset 88"
    assert broken(found, 1).endswith("offset 88, and 1 further break")
    assert broken(found, 2).endswith("offset 88, and 2 further breaks")


def test_documents(capsys: pytest.CaptureFixture[str]) -> None:
    """However it ends, what was written is one document with the same keys."""
    first = Break("mac", "m", line=3, offset=88)
    second = Break("seq", "s", line=5, offset=99)
    entry = Entry(0, "0" * 64, "note", 0, {"text": "caf\u00e9 \ud800"})

    def begun() -> Document:
        document = Document()
        document.begin("s1", 'a"b')
        return document

    def end(act: object) -> dict[str, object]:
        assert callable(act)
        capsys.readouterr()
        act()
        return dict(json.loads(capsys.readouterr().out))

    def shown() -> None:
        document = begun()
        document.entry(entry)
        document.entry(entry)
        document.verified(PLAIN)

    whole = end(shown)
    assert (whole["sid"], whole["path"], whole["verified"]) == ("s1", 'a"b', True)
    assert [each["data"] for each in whole["entries"]] == [entry.data] * 2
    bad = end(lambda: begun().broken(first, [second]))
    assert (bad["verified"], bad["verdict"]) == (False, None)
    assert [each["reason"] for each in bad["breaks"]] == ["mac", "seq"]
    assert bad["break"] == {"reason": "mac", "message": "m", "line": 3, "offset": 88}
    error = UnverifiableError("no key", code="unverifiable.missing")
    for fresh in (begun, Document):
        failed = end(lambda make=fresh: make().failed(error))
        assert failed["error"] == {"code": "unverifiable.missing", "message": "no key"}
        assert (failed["verified"], failed["break"]) == (False, None)
        assert set(failed) == set(whole) == set(bad)
