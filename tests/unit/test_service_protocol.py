"""Frames and messages of a session's socket."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import BrokerError, InputError, LimitError
from broker.service.protocol import (
    ALLOW,
    REFUSE,
    HookRefusal,
    HookRequest,
    frame,
    read_object,
    read_request,
    receive,
    write_object,
)


class Bytes:
    """A connection that gives these bytes, so many at a time, and then ends."""

    def __init__(self, data: bytes, step: int = 1) -> None:
        self.data = data
        self.step = step

    def recv(self, size: int, /) -> bytes:
        """Give the next few bytes."""
        part = self.data[: min(size, self.step)]
        self.data = self.data[len(part) :]
        return part

    def sendall(self, data: bytes, /) -> None:
        """Take anything."""


@given(st.binary(max_size=300), st.integers(1, 50), st.binary(max_size=9))
def test_a_frame_is_received_as_it_was_sent(body: bytes, step: int, rest: bytes) -> None:
    """However the bytes are chopped, the frame is whole, and what follows is untouched."""
    connection = Bytes(frame(body) + rest, step)
    assert receive(connection) == body
    assert connection.data == rest


@given(st.binary(min_size=1, max_size=60), st.data())
def test_a_frame_that_ends_early_is_an_error(body: bytes, data: st.DataObject) -> None:
    """Part of a frame is never taken for one; nothing at all is the end."""
    whole = frame(body)
    cut = data.draw(st.integers(1, len(whole) - 1))
    with pytest.raises(InputError):
        receive(Bytes(whole[:cut]))
    assert receive(Bytes(b"")) is None


def test_a_frame_has_a_limit() -> None:
    """A length beyond the limit is refused before a byte of the body is read."""
    assert receive(Bytes(frame(b"12345"), 9), limit=5) == b"12345"
    connection = Bytes(frame(b"123456"), 9)
    with pytest.raises(LimitError):
        receive(connection, limit=5)
    assert connection.data == b"123456"


def test_frames_pass_through_a_real_socket() -> None:
    """A megabyte goes through a socket pair in one piece."""
    here, there = socket.socketpair()
    body = bytes(2**20)
    sender = threading.Thread(target=there.sendall, args=(frame(body),))
    sender.start()
    assert receive(here) == body
    sender.join()
    here.close()
    there.close()


def test_a_hooks_request_keeps_its_payload() -> None:
    """The payload is what follows the first line, to the byte."""
    assert read_request(b"hook claude-code\n{\n}\n") == HookRequest("claude-code", b"{\n}\n")
    assert read_request(b"hook x\n") == HookRequest("x", b"")


@pytest.mark.parametrize(
    "body",
    [
        b"hook x",
        b"hook \n{}",
        b"hook " + b"a" * 65 + b"\n",
        b"hook \xc3\xa9\n",
        b"",
        b"null",
        b"[]",
    ],
)
def test_what_is_no_request_is_an_error(body: bytes) -> None:
    """A request without its agent, or that is no object, is not guessed at."""
    with pytest.raises(InputError):
        read_request(body)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":2}',
        b'{"a":{"b":1,"b":1}}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b"\xff{}",
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":1}x',
        b"{'a':1}",
        b'{"a":' + b"[" * 100_000,
        b'{"a":' + b"1" * 5_000 + b"}",
    ],
)
def test_objects_are_read_strictly(text: bytes) -> None:
    """What two readers could read unlike, or none could, is an error."""
    with pytest.raises(InputError):
        read_object(text)


@given(st.binary(max_size=80))
def test_no_bytes_break_the_reader(body: bytes) -> None:
    """Any bytes are a request or an error of ours."""
    with suppress(BrokerError):
        assert read_request(body) is not None


def test_text_of_any_kind_survives() -> None:
    """Objects come back as they were, lone surrogates and all."""
    value: dict[str, object] = {"a": ["\ud800", "é", "\0"], "b": {"c": None}}
    assert read_object(write_object(value)) == value


def test_an_allow_is_one_text_and_a_refusal_another() -> None:
    """Neither reads as the beginning of the other."""
    assert not REFUSE.startswith(ALLOW)
    assert not ALLOW.startswith(REFUSE)
    assert HookRefusal(0, b"out", b"").encode().startswith(REFUSE)
