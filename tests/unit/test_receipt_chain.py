"""What the next line of a session must be."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from broker.errors import Break, LimitError
from broker.limits import MAX_LINE_BYTES
from broker.receipt.chain import Chain, genesis
from broker.receipt.entry import encode_data, format_at
from broker.receipt.keys import Key, sign
from tests.receiptkit import AT, KEY, signed

WHEN = format_at(AT)


def begun(sid: str = "s1") -> tuple[Chain, bytes]:
    """Return a verifying chain before its first line, and that line."""
    return Chain(sid, KEY), Chain(sid, KEY).compose("open", '{"format":"receipt/1"}', WHEN)


def broken(chain: Chain, line: bytes) -> str:
    """Return why a line is refused, after seeing that nothing moved."""
    before = (chain.n, chain.size, chain.last, chain.closing)
    with pytest.raises(Break) as caught:
        chain.accept(line)
    assert (chain.n, chain.size, chain.last, chain.closing) == before
    assert (caught.value.line, caught.value.offset) == (chain.n, chain.size)
    return caught.value.reason


def test_a_line_byte_by_byte() -> None:
    """Line 0 is spelled exactly as the format says, and its tag can be made from outside."""
    _, line = begun()
    link = sha256(b"receipt/1 genesis\0s1").hexdigest()
    body = (
        '{"at":"2026-11-30T08:00:00.000Z","data":{"format":"receipt/1"},'
        f'"kid":"01881659522b0519","kind":"open","n":0,"prev":"{link}","sid":"s1"}}'
    ).encode()
    subkey = bytes.fromhex(sign(KEY.secret, "receipt/1 line", b"s1"))
    tag = sign(subkey, "receipt/1 line", body)
    assert line == body[:-1] + f',"sig":"{tag}"}}'.encode()
    assert line[:-74] + b"}" == body
    assert genesis("s1") == link


def test_what_is_composed_is_accepted() -> None:
    """A writer's lines are a verifier's lines, and both end in the same state."""
    writer, reader = Chain("s1", KEY), Chain("s1", KEY)
    kinds = ["open", "intent", "note", "decision"]
    for kind in kinds:
        text = encode_data({"format": "receipt/1", "text": "é\n"})
        line = writer.compose(kind, text, WHEN)
        writer.push(kind, WHEN, line)
        reader.accept(line)
        assert (reader.kind, reader.at, reader.text) == (kind, WHEN, text)
    assert (writer.n, writer.size, writer.last) == (reader.n, reader.size, reader.last)
    assert writer.seal_data("complete") == reader.seal_data("complete")


def test_a_seal_closes() -> None:
    """After a fitting seal nothing is accepted; its reason and root are told."""
    chain, line = begun()
    chain.accept(line)
    data = chain.seal_data("abandoned")
    chain.accept(chain.compose("seal", encode_data(data), WHEN))
    assert (chain.closing, chain.root) == ("abandoned", data["root"])
    assert broken(chain, chain.compose("note", "{}", WHEN)) == "after_seal"


@pytest.mark.parametrize(
    "data",
    [
        {"n": 2, "reason": "complete"},
        {"n": 1, "reason": "finished"},
        {"n": 1, "reason": "complete", "root": "0" * 64},
        {"n": 1, "reason": "complete", "more": 1},
        {"n": True, "reason": "complete"},
        {"reason": "complete"},
        {"n": 1, "reason": ["complete"]},
        {},
    ],
)
def test_a_lying_seal(data: dict[str, object]) -> None:
    """A seal with another count, root, reason or key does not close anything."""
    chain, line = begun()
    chain.accept(line)
    full = {"root": chain.seal_data("complete")["root"], **data} if data else data
    assert broken(chain, chain.compose("seal", encode_data(full), WHEN)) == "seal"


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"bytes": 1, "kept": "x", "sha256": "0" * 63},
        {"bytes": 0, "kept": "x", "sha256": "0" * 64},
        {"bytes": True, "kept": "x", "sha256": "0" * 64},
        {"bytes": 1, "kept": 5, "sha256": "0" * 64},
        {"bytes": 1, "kept": "x", "sha256": None},
        {"bytes": 1, "kept": "x", "sha256": "0" * 64, "more": 1},
    ],
)
def test_a_recovery_that_describes_nothing(data: dict[str, object]) -> None:
    """A recover line has the size, the hash and the name of a fragment, and nothing else."""
    chain, line = begun()
    chain.accept(line)
    assert broken(chain, chain.compose("recover", encode_data(data), WHEN)) == "schema"
    good = {"bytes": 1, "kept": "x", "sha256": "0" * 64}
    chain.accept(chain.compose("recover", encode_data(good), WHEN))


def test_open_is_the_first_line_and_only_the_first() -> None:
    """A receipt begins with `open`, says its format, and does not begin again."""
    chain, line = begun()
    assert broken(chain, chain.compose("note", "{}", WHEN)) == "kind"
    assert broken(chain, chain.compose("seal", "{}", WHEN)) == "kind"
    for text in ("{}", '{"format":"receipt/2"}', '{"format":1}'):
        assert broken(chain, chain.compose("open", text, WHEN)) == "schema"
    chain.accept(line)
    assert broken(chain, chain.compose("open", '{"format":"receipt/1"}', WHEN)) == "kind"


@pytest.mark.parametrize("kind", ["", "Note", "checkpoint", "unknown", "note\\n"])
def test_unknown_kinds(kind: str) -> None:
    """A signed line of a kind that this version does not know is not passed over."""
    chain, line = begun()
    chain.accept(line)
    assert broken(chain, chain.compose(kind, "{}", WHEN)) == "kind"


def signed_fields(chain: Chain, **changed: object) -> bytes:
    """Return the next line with some fields changed and the tag made afresh."""
    fields = json.loads(chain.compose("note", "{}", WHEN))
    del fields["sig"]
    fields.update(changed)
    return signed(encode_data(fields).encode(), "s1")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"sid": "s2"}, "sid"),
        ({"kid": "0" * 16}, "kid"),
        ({"n": 2}, "seq"),
        ({"n": -1}, "seq"),
        ({"n": True}, "schema"),
        ({"n": "1"}, "schema"),
        ({"prev": "0" * 64}, "prev"),
        ({"prev": 5}, "schema"),
        ({"data": []}, "schema"),
        ({"data": None}, "schema"),
        ({"at": "2026-11-30T08:00:00Z"}, "schema"),
        ({"at": '2026-11-30T08:00:00.000"'}, "schema"),
        ({"at": ""}, "schema"),
        ({"kind": 1}, "schema"),
        ({"extra": 1}, "schema"),
        ({"sid": "s2", "kid": "0" * 16, "n": 7, "prev": "x"}, "sid"),
    ],
)
def test_signed_fields_out_of_place(changed: dict[str, object], reason: str) -> None:
    """A holder of the key who signs another field is told which one does not fit."""
    chain, line = begun()
    chain.accept(line)
    assert broken(chain, signed_fields(chain, **changed)) == reason


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'{"at":', b'{"aa":', "schema"),
        (b'","data":', b'","date":', "schema"),
        (b":00.000Z", b":00.00xZ", "schema"),
        (b":00.000Z", b":00.000z", "schema"),
        (b":00.000Z", b":00 000Z", "schema"),
        (b',"kid":', b', "kid":', "canon"),
        (b'"data":{}', b'"data":{},"extra":1', "schema"),
        (b'"data":{}', b'"data":{},"data":{}', "dupkey"),
    ],
)
def test_signed_bytes_out_of_place(old: bytes, new: bytes, reason: str) -> None:
    """A line whose signed bytes are off by a little is refused, also behind one like it."""
    chain, line = begun()
    chain.accept(line)
    body = chain.compose("note", "{}", WHEN)[:-74] + b"}"
    assert old in body
    assert broken(chain, signed(body.replace(old, new), "s1")) == reason


@pytest.mark.parametrize("place", [-1, -2, -67, -68, -74])
def test_the_bytes_around_a_tag_are_fixed(place: int) -> None:
    """What the tag does not cover, its own wrapping, is compared byte by byte."""
    chain, line = begun()
    changed = bytearray(line)
    changed[place] ^= 1
    assert broken(chain, bytes(changed)) == "format"


def test_missing_fields_and_other_values() -> None:
    """A signed text that is no object, or lacks a key, is refused."""
    chain, line = begun()
    chain.accept(line)
    fields = json.loads(chain.compose("note", "{}", WHEN))
    del fields["sig"], fields["kind"]
    assert broken(chain, signed(encode_data(fields).encode(), "s1")) == "schema"
    assert broken(chain, signed(b'"text"}', "s1")) in {"json", "canon"}
    assert broken(chain, signed(b"\xff}", "s1")) == "encoding"
    assert broken(chain, signed(b"}", "s1")) == "json"


def test_data_cannot_pose_as_the_fields_after_it() -> None:
    """Data that contains the text of later fields stays data."""
    chain, line = begun()
    chain.accept(line)
    link = chain.last
    trick = f'","kid":"{KEY.kid}","kind":"note","n":1,"prev":"{link}","sid":"s1"'
    chain.accept(chain.compose("note", encode_data({"x": trick}), WHEN))
    assert json.loads(chain.text) == {"x": trick}


@pytest.mark.parametrize("line", [b"", b"}", b"x" * 73, b"x" * 74, b"x" * 75, b'{"sig":""}'])
def test_lines_without_a_tag(line: bytes) -> None:
    """A line that does not end in a tag by position is not read any further."""
    chain, _ = begun()
    assert broken(chain, line) == "format"


def test_another_key_or_session() -> None:
    """A line of another session or key fails before anything in it is read."""
    _, line = begun("s2")
    assert broken(Chain("s1", KEY), line) == "mac"
    assert broken(Chain("s2", Key.of(bytes(range(1, 33)))), line) == "mac"


def test_the_longest_line() -> None:
    """A line of exactly the limit is written and read; one byte more is neither."""
    chain, line = begun()
    chain.accept(line)
    room = MAX_LINE_BYTES - len(chain.compose("note", '{"x":""}', WHEN))
    longest = chain.compose("note", encode_data({"x": "y" * room}), WHEN)
    assert len(longest) == MAX_LINE_BYTES
    with pytest.raises(LimitError, match="record a digest"):
        chain.compose("note", encode_data({"x": "y" * (room + 1)}), WHEN)
    assert broken(chain, b" " + longest) == "size"
    chain.accept(longest)


def test_the_clock_may_go_back() -> None:
    """Instants do not order lines; the chain counts where they went back."""
    chain, line = begun()
    chain.accept(line)
    for at in (AT - 1_000_000, AT, AT - 5_000_000):
        chain.accept(chain.compose("note", "{}", format_at(at)))
    assert chain.went_back == 2


@pytest.mark.parametrize("value", [["A" * 43, "A" * 43], [], "x", ["short"], [1]])
def test_commitments_of_another_form_are_a_break(value: object) -> None:
    """A holder of the key cannot commit twice to one digest, or to what is no digest."""
    writer, reader = Chain("s1", KEY), Chain("s1", KEY)
    opening = writer.compose("open", '{"format":"receipt/1"}', WHEN)
    writer.push("open", WHEN, opening)
    reader.accept(opening)
    assert broken(reader, writer.compose("note", encode_data({"_sd": value}), WHEN)) == "schema"
    good = encode_data({"_sd": ["A" * 43, "B" * 43]})
    reader.accept(writer.compose("note", good, WHEN))
    quoted = encode_data({"text": 'says "_sd": nothing'})
    writer.push("note", WHEN, writer.compose("note", good, WHEN))
    reader.accept(writer.compose("note", quoted, WHEN))
