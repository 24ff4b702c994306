"""
Changes to a receipt, drawn by chance: those anybody can make, and those that take the key.

The second kind matters more here: behind a tag that is right, it is the strict reading alone in
which two verifiers could differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256

from hypothesis import strategies as st

from broker.receipt.entry import canonical
from tests.receiptkit import body_of, signed
from tests.standalone.vectors import checkpoint

# Within one line that is spelled wrong in more than one way, any of its faults may be named.
READING = {"encoding", "depth", "dupkey", "number", "json", "schema", "canon"}

CHARACTERS = st.sampled_from(
    [*'{}[]",:\\0123456789-.eE+ntfu \t\x00\x7f\u00e9\ud7ff\u2028\U0001f600']
)
HOSTILE = st.sampled_from(
    [
        "{}",
        "[]",
        "1",
        '""',
        "null",
        '{"a":1}',
        '{"a":1,"a":1}',
        '{"b":1,"a":1}',
        '{"a": 1}',
        '{"a":1.0}',
        '{"a":1e3}',
        '{"a":-0}',
        '{"a":01}',
        '{"a":+1}',
        '{"a":NaN}',
        '{"a":-Infinity}',
        '{"a":9007199254740991}',
        '{"a":9007199254740992}',
        '{"a":-9007199254740991}',
        '{"a":-9007199254740992}',
        '{"a":00000000000000001}',
        '{"a":true}',
        '{"é":1}',
        '{"a":"\\u00e9"}',
        '{"a":"\\/"}',
        '{"a":"\\u001f"}',
        '{"a":"\\u001F"}',
        '{"a":"\\b\\f\\n\\r\\t\\"\\\\"}',
        '{"a":"\\u0008"}',
        '{"a":"\x7f\u2028"}',
        '{"a":"\\ud83d\\ude00"}',
        '{"a":"\\ud83d"}',
        '{"a":"\x01"}',
        '{"a":' + "[" * 31 + "]" * 31 + "}",
        '{"a":' + "[" * 32 + "]" * 32 + "}",
        '{"a":' + "[" * 33 + "]" * 33 + "}",
        '{"a":' + "[" * 20_000,
        '{"a":"' + "[" * 100 + '"}',
        '{"a":"\\"' + "[" * 100 + '"}',
        '{"_sd":[]}',
        '{"_sd":["' + "A" * 43 + '"]}',
        '{"_sd":["' + "A" * 43 + '","' + "A" * 43 + '"]}',
        '{"_sd":["' + "A" * 43 + '","' + "B" * 43 + '"]}',
        '{"_sd":["' + "B" * 43 + '","' + "A" * 43 + '"]}',
        '{"_sd":["' + "A" * 42 + '"]}',
        '{"_sd":["' + "A" * 42 + 'é"]}',
        '{"_sd":"' + "A" * 43 + '"}',
        '{"_sd":[1]}',
        '{"_sd":null}',
        '{"a":{"_sd":[]}}',
        '{"bytes":1,"kept":"a","sha256":"' + "0" * 64 + '"}',
        '{"bytes":0,"kept":"a","sha256":"' + "0" * 64 + '"}',
        '{"bytes":true,"kept":"a","sha256":"' + "0" * 64 + '"}',
        '{"bytes":1,"kept":"a\\",\\"l","sha256":"' + "0" * 64 + '"}',
        '{"bytes":1,"kept":"a","l":"a","sha256":"' + "0" * 64 + '"}',
        '{"bytes":1,"kept":null,"sha256":"' + "0" * 64 + '"}',
        '{"bytes":1,"kept":"a","sha256":"' + "A" * 64 + '"}',
        '{"format":"receipt/1"}',
        '{"format":"receipt/1","level":"mac"}',
        '{"format":"receipt/2"}',
        '{"format":["receipt/1"]}',
        '{"n":4,"reason":"complete","root":"' + "0" * 64 + '"}',
    ]
)
KINDS = st.sampled_from(
    ["note", "open", "seal", "recover", "decision", "begin", "rotate", "", "Note", "note "]
)
INSTANTS = st.sampled_from(
    [
        "2024-02-29T23:59:59.999Z",
        "2023-02-29T00:00:00.000Z",
        "0000-01-01T00:00:00.000Z",
        "0001-01-01T00:00:00.000Z",
        "9999-12-31T23:59:59.999Z",
        "2026-00-01T00:00:00.000Z",
        "2026-13-01T00:00:00.000Z",
        "2026-04-31T00:00:00.000Z",
        "2026-04-00T00:00:00.000Z",
        "2026-04-30T24:00:00.000Z",
        "2026-04-30T23:60:00.000Z",
        "2026-04-30T23:59:60.000Z",
        "2026-04-30T23:59:59.000z",
        "2026-04-30t23:59:59.000Z",
        "2026-04-30T23:59:59.00Z",
        "2026-04-30T23:59:59.0000Z",
        "2026-04-30T23:59:59,000Z",
        "2026-04-30T23:59:59.0\u0660 0Z",
        "20\u0662\u0666-04-30T23:59:59.000Z",
        "+026-04-30T23:59:59.000Z",
    ]
)


@st.composite
def whole_edits(draw: st.DrawFn) -> Callable[[list[bytes]], bytes]:
    """Return a change of the file's bytes, as somebody without the key can make it."""
    kind = draw(st.sampled_from(["flip", "drop", "double", "swap", "cut", "insert", "splice"]))
    one, other = draw(st.integers(0, 2**16)), draw(st.integers(0, 2**16))
    bit, junk = draw(st.integers(0, 7)), draw(st.binary(max_size=8))

    def edit(lines: list[bytes]) -> bytes:
        i, j = one % len(lines), other % len(lines)
        if kind == "drop":
            lines = lines[:i] + lines[i + 1 :]
        elif kind == "double":
            lines = [*lines[:j], lines[i], *lines[j:]]
        elif kind == "swap":
            lines[i], lines[j] = lines[j], lines[i]
        content = b"".join(line + b"\n" for line in lines)
        place = (one * 65_537 + other) % max(1, len(content))
        if kind == "flip":
            content = content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
        elif kind == "cut":
            content = content[:place]
        elif kind == "insert":
            content = content[:place] + junk + content[place:]
        elif kind == "splice":
            content = content[:place] + content[place + 1 + bit * 40 :]
        return content

    return edit


def relinked(lines: list[bytes], after: int, sid: str) -> list[bytes]:
    """Link and sign the lines after one anew, so that it alone decides."""
    made = lines[: after + 1]
    for line in lines[after + 1 :]:
        fields = json.loads(body_of(line))
        fields["prev"] = sha256(made[-1]).hexdigest()
        made.append(signed(canonical(fields).encode(), sid))
    return made


@st.composite
def signed_edits(draw: st.DrawFn) -> Callable[[list[bytes], str], bytes]:
    """Return a change of one line, as only a holder of the key can make it."""
    number, place = draw(st.integers(0, 10)), draw(st.integers(0, 2**16))
    field = draw(st.sampled_from(["data", "data", "data", "kind", "at", "n", "any", "type"]))
    text, kind, at = draw(HOSTILE), draw(KINDS), draw(INSTANTS)
    junk = draw(st.text(CHARACTERS, max_size=3)).encode()
    name = draw(st.sampled_from(["at", "data", "kid", "kind", "n", "prev", "sid", "extra"]))
    value = draw(st.sampled_from([True, None, 1.5, "1", [], {}, 2**53, -1, "x" * 64]))

    def edit(lines: list[bytes], sid: str) -> bytes:
        i = number % len(lines)
        fields = json.loads(body_of(lines[i]))
        if field == "type":
            fields[name] = value
        elif field == "n":
            fields["n"] += 1
        elif field != "any":
            fields["kind"] = kind if field == "kind" or len(junk) > 1 else fields["kind"]
            fields["at"] = at if field == "at" else fields["at"]
        body = canonical(fields).encode()
        if field == "data":
            start, stop = body.index(b'"data":') + 7, body.rindex(b',"kid"')
            body = body[:start] + text.encode() + body[stop:]
        elif field == "any":
            spot = place % len(body)
            body = body[:spot] + junk + body[spot + number % 3 :]
        lines[i] = signed(body, sid)
        return b"".join(line + b"\n" for line in relinked(lines, i, sid))

    return edit


# What somebody can append to a note: signatures of others, right and wrong, and rubbish.
APPENDED = (
    "\N{EM DASH} other AAAAAAAA\n".encode(),
    "\N{EM DASH} a+b AAAAAAAA\n".encode(),
    "\N{EM DASH} short AAAA\n".encode(),
    b"\xe2\x80\x94 oth\xffer AAAAAAAA\n",
    b"\n",
    b"x",
    b"\xc2\xa0",
)


@st.composite
def notes(draw: st.DrawFn) -> Callable[[list[bytes], str], bytes | None]:
    """Return what makes a checkpoint for lines, or none: right, too old, too new, or spoilt."""
    size = draw(st.integers(0, 75) | st.just(-1))
    fault = draw(st.sampled_from(["none", "", "", "", "root", "sid", "flip", "cut", "add", "line"]))
    place, bit = draw(st.integers(0, 400)), draw(st.integers(0, 7))
    other = draw(st.sampled_from(APPENDED))

    def make(lines: list[bytes], sid: str) -> bytes | None:
        if fault == "none":
            return None
        covered = lines if size < 0 else lines[:size]
        number = str(len(lines) if size < 0 else size)
        root = bytes(32) if fault == "root" else b""
        note = checkpoint(covered, "another" if fault == "sid" else sid, number, root)
        spot = place % len(note)
        if fault == "flip":
            note = note[:spot] + bytes([note[spot] ^ 1 << bit]) + note[spot + 1 :]
        elif fault == "cut":
            note = note[:spot]
        elif fault == "add":
            note += other
        elif fault == "line":
            note = note.replace(b"\n\n", b"\nmore\n\n")
        return note

    return make
