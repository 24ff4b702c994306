"""Which protocol is spoken, and what encoded bytes say."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.capture.wires import reading
from broker.limits import MAX_CAPTURED_BYTES
from broker.loopback.script import Say
from tests.wirekit import PAIRS, answer, path, request


@pytest.mark.parametrize("name", PAIRS)
def test_a_path_says_the_protocol(name: str) -> None:
    """Each protocol is known by the end of its path, and by POST."""
    wire = reading.wire_of("POST", path(name))
    assert wire is not None
    assert wire.api == PAIRS[name][0].api
    assert reading.wire_of("GET", path(name)) is None
    assert reading.asked(wire, request(name, "go"), path(name)).messages
    assert not reading.asked(wire, [1], path(name)).messages


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("kind", ["text/event-stream", ""])
def test_a_stream_is_known_by_its_type_or_its_look(name: str, kind: str) -> None:
    """A server that names no type of its answer is understood by what it sends."""
    reader, wire = PAIRS[name]
    content = answer(wire, Say("hello"), "s-0", stream=True).encode()
    assert reading.reply(reader, content, kind).text == "hello"


@given(st.binary(max_size=200))
def test_encodings_are_undone(content: bytes) -> None:
    """What was packed in a known way is unpacked, also twice, also `deflate` without its head."""
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    bare = raw.compress(content) + raw.flush()
    assert reading.undone(gzip.compress(content), "gzip") == content
    assert reading.undone(zlib.compress(content), "Deflate") == content
    assert reading.undone(gzip.compress(zlib.compress(content)), "deflate, gzip") == content
    assert reading.undone(content, "identity") == content
    if content:
        assert reading.undone(bare, "deflate") == content


@given(st.binary(max_size=200), st.sampled_from(["gzip", "deflate", "br", "gzip, br", "x"]))
def test_undoing_never_fails(content: bytes, encoding: str) -> None:
    """Bytes that are not what they say, or in another encoding, are not undone, and no more."""
    reading.undone(content, encoding)
    reading.json_of(content)


def test_a_bomb_is_not_unpacked() -> None:
    """What grows beyond all bounds is left packed."""
    bomb = gzip.compress(b"\0" * (MAX_CAPTURED_BYTES + 1))
    assert reading.undone(bomb, "gzip") is None
    assert len(bomb) < 100_000
