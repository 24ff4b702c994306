"""Signed notes: published ones, every place a bit can turn, and the limits."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Break, InputError
from broker.limits import MAX_NOTE_BYTES, MAX_NOTE_SIGNATURES
from broker.receipt.note import Note, open_note, sign_note, signature_line
from broker.receipt.signing import SigningKey, VerifyKey

KEY = SigningKey.of(bytes(range(32)))
OTHER = SigningKey.of(bytes(range(1, 33)))
TEXT = "first\n\nlast\n"
NOTE = sign_note(TEXT, KEY)
TEXTS = st.text(
    st.characters(min_codepoint=32, exclude_categories=("Cs",)) | st.just("\n"), max_size=60
).map(lambda text: text + "\n")


def reason(content: bytes, *keys: VerifyKey) -> str:
    """Return why a note is refused, or nothing."""
    try:
        open_note(content, keys)
    except Break as error:
        return error.reason
    return ""


def test_published_notes(shared: Path) -> None:
    """All twelve published notes are accepted or refused as published."""
    cases = json.loads((shared / "vectors/c2sp-signed-note/notes.json").read_text())
    assert len(cases) == 12
    for case in cases:
        vkeys = [case["vkey"]] if isinstance(case["vkey"], str) else case["vkey"]
        keys = [VerifyKey.parse(vkey) for vkey in vkeys]
        refused = reason(case["note"].encode(), *keys)
        assert bool(refused) == (case["want"] == "reject"), case["name"]
        if not refused:
            found = open_note(case["note"].encode(), keys)
            assert case["note"].startswith(found.text + "\n— ")
            assert found.signers == tuple(keys)


def test_signing_gives_the_published_bytes(shared: Path) -> None:
    """With the published secret, signing the published text gives the published note."""
    cases = json.loads((shared / "vectors/c2sp-signed-note/notes.json").read_text())
    case = next(each for each in cases if each["name"] == "peter")
    seed = b64decode(case["skey"].split("+", 4)[4])[1:]
    public = VerifyKey.parse(case["vkey"])
    key = SigningKey(seed, public)
    text = case["note"].partition("\n\n— ")[0] + "\n"
    assert sign_note(text, key) == case["note"].encode()


@given(TEXTS)
def test_what_is_signed_opens(text: str) -> None:
    """Every text that can be signed comes back, with its signers, also through blank lines."""
    note = sign_note(text, KEY, OTHER)
    assert open_note(note, [OTHER.public]) == Note(text, (OTHER.public,))
    assert open_note(note, [KEY.public, OTHER.public]).signers == (KEY.public, OTHER.public)


def test_no_bit_of_a_note_is_free() -> None:
    """With any single bit turned, the note is refused."""
    for place in range(len(NOTE) * 8):
        turned = bytearray(NOTE)
        turned[place // 8] ^= 1 << place % 8
        assert reason(bytes(turned), KEY.public) in ("checkpoint_format", "checkpoint_sig"), place


def test_no_part_of_a_note_is_one() -> None:
    """A note that was cut short anywhere is refused."""
    for stop in range(len(NOTE)):
        assert reason(NOTE[:stop], KEY.public) in ("checkpoint_format", "checkpoint_sig"), stop


def test_unknown_signers_do_not_matter() -> None:
    """Signatures of other names, other ids and other kinds are ignored, in any order."""
    other = signature_line(OTHER.public, OTHER.sign(TEXT.encode()))
    strange = f"— {KEY.name} {b64encode(b'abcd' + bytes(5_000)).decode()}\n".encode()
    text, line = NOTE.rsplit(b"\n\n", 1)
    for lines in ([other, line], [line, other], [strange, line, strange]):
        note = text + b"\n\n" + b"".join(lines)
        assert open_note(note, [KEY.public]) == Note(TEXT, (KEY.public,))


def test_a_wrong_signature_of_a_known_key_spoils_the_note() -> None:
    """A second line by a known key that does not verify refuses the whole note."""
    wrong = signature_line(OTHER.public, OTHER.sign(b"another text\n"))
    assert reason(NOTE + wrong, KEY.public) == ""
    assert reason(NOTE + wrong, KEY.public, OTHER.public) == "checkpoint_sig"


def test_the_name_of_a_key_is_not_the_key() -> None:
    """Another key under the same name signs nothing, even where its id is claimed too."""
    thief = SigningKey(OTHER.seed, VerifyKey(KEY.name, OTHER.public.public))
    assert reason(sign_note(TEXT, thief), KEY.public) == "checkpoint_sig"
    claimed = TEXT.encode() + b"\n" + signature_line(KEY.public, thief.sign(TEXT.encode()))
    assert reason(claimed, KEY.public) == "checkpoint_sig"


def test_nobody_is_believed_without_a_key() -> None:
    """With no key to believe, no note opens."""
    assert reason(NOTE) == "checkpoint_sig"


MALFORMED = {
    "crlf": NOTE.replace(b"\n", b"\r\n"),
    "tab": NOTE.replace(b"first", b"fir\tst"),
    "nul": NOTE.replace(b"first", b"first\0"),
    "utf-8": NOTE.replace(b"first", b"\xff"),
    "surrogate": NOTE.replace(b"first", b"\xed\xa0\x80"),
    "no end": NOTE[:-1],
    "no blank line": NOTE.replace(b"\n\n", b"\n"),
    "hyphen": NOTE.replace("—".encode(), b"-"),
    "no blank after the dash": NOTE.replace("— ".encode(), "—".encode()),
    "short": TEXT.encode() + b"\n" + f"— {KEY.name} YWJjZA==\n".encode(),
    "two spaces": NOTE.replace("— ".encode(), "—  ".encode()),
    "text at the end": NOTE + b"more\n",
    "blank at the end": NOTE[:-1] + b" \n",
    "other base64": NOTE[:-3] + b"B==\n" if NOTE[-4:-1] == b"A==" else NOTE[:-1] + b"=\n",
    "too long": b"x" * MAX_NOTE_BYTES + NOTE,
    "too many": NOTE + f"— a {b64encode(bytes(5)).decode()}\n".encode() * MAX_NOTE_SIGNATURES,
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_notes(name: str) -> None:
    """What is not the one spelling of a note is refused as such."""
    assert reason(MALFORMED[name], KEY.public) == "checkpoint_format"


def test_without_its_signature_line_a_note_is_unsigned() -> None:
    """The text and the blank line alone are a note that nobody signed."""
    assert reason(TEXT.encode() + b"\n", KEY.public) == "checkpoint_sig"


@pytest.mark.parametrize("text", ["", "no end", "a\tb\n", "a\r\n"])
def test_what_cannot_be_signed(text: str) -> None:
    """A text that could not be read back is not signed; nor is any by nobody."""
    with pytest.raises(InputError):
        sign_note(text, KEY)
    with pytest.raises(InputError):
        sign_note("fine\n")
