"""One message, read so that everybody reads it alike."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import InputError, LimitError
from broker.limits import MAX_REQUEST_BYTES
from broker.mcp.messages import REFUSED, failure, read_message, tool_failure, write
from tests.mcpkit import answer, call, said

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)
KEYS = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "Method", "x"])


def test_the_three_kinds_are_told_apart() -> None:
    """A request has an id, a notification has none, an answer has no method."""
    assert read_message(said("ping", 1)).kind == "request"
    assert read_message(said("ping", "a")).id == "a"
    assert read_message(said("notifications/progress")).kind == "notification"
    assert read_message(answer(1)).kind == "response"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":null,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"params":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":""}',
        b'{"jsonrpc":"2.0","id":1,"method":7}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}{}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xff"}}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 5000 + b"}" * 5001,
    ],
)
def test_what_is_no_message_is_an_error(raw: bytes) -> None:
    """Whatever is not one message of JSON-RPC 2.0 raises, and nothing else does."""
    with pytest.raises(InputError):
        read_message(raw)


@pytest.mark.parametrize("ident", ["null", "true", "1.5", "1.0", "[]", "{}", str(2**53), "1e3"])
def test_an_id_that_two_readers_spell_differently_is_refused(ident: str) -> None:
    """Only texts, and whole numbers that JavaScript keeps, are ids."""
    with pytest.raises(InputError):
        read_message(f'{{"jsonrpc":"2.0","id":{ident},"method":"ping"}}'.encode())


@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}',
        '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"name":"a","ta\u017fk":1}}'.encode(),
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","Name":"b"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Arguments":{}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":'
        b'{"path":"src","Path":"/etc"}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":'
        b'{"path":"src","path":"/etc"}}}',
    ],
)
def test_keys_that_two_readers_take_differently_are_refused(raw: bytes) -> None:
    """A key twice, or in another case, would let a server act on something else than was judged."""
    with pytest.raises(InputError):
        read_message(raw)


def test_no_line_is_hidden_inside_a_line() -> None:
    """A lone carriage return between tokens, where some servers split, goes on as a blank."""
    hidden = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":\r' + call(2, "drop") + b"\r}}"
    message = read_message(hidden + b"\r\n")
    assert not set(b"\r\n") & set(message.raw)
    assert json.loads(message.raw) == json.loads(hidden)


def test_a_message_goes_on_as_it_came() -> None:
    """The bytes are kept, spaces, order and escapes included."""
    raw = b'{"id": 1,  "method":"ping", "jsonrpc" :"2.0","params":{"a":"\\u00e9\xc3\xa9"}}'
    assert read_message(raw).raw == raw


def test_a_message_has_a_largest_size() -> None:
    """One byte more than the limit is refused before it is read."""
    with pytest.raises(LimitError):
        read_message(b" " * (MAX_REQUEST_BYTES + 1))


@given(st.binary(max_size=200) | JSON.map(lambda v: json.dumps(v).encode()))
def test_reading_is_total(raw: bytes) -> None:
    """Any bytes give a message or an InputError."""
    try:
        assert read_message(raw).body["jsonrpc"] == "2.0"
    except InputError as error:
        assert "\n" not in str(error)


@given(st.dictionaries(KEYS, JSON, max_size=6))
def test_a_message_that_is_read_has_one_kind(body: dict[str, object]) -> None:
    """Whatever is read as a message is exactly one of request, notification and answer."""
    try:
        message = read_message(json.dumps({**body, "jsonrpc": "2.0"}).encode())
    except InputError:
        return
    found = message.body
    kinds = {
        "request": "method" in found and "id" in found,
        "notification": "method" in found and "id" not in found,
        "response": "method" not in found and ("result" in found) != ("error" in found),
    }
    assert [kind for kind, so in kinds.items() if so] == [message.kind]


def test_refusals_are_answers() -> None:
    """Both kinds of refusal can be read as answers to the request."""
    assert read_message(failure(3, REFUSED, "no \u2028 \ud800")).id == 3
    told = read_message(tool_failure("a", "no")).body["result"]
    assert told == {"content": [{"type": "text", "text": "no"}], "isError": True}


def test_a_number_that_json_cannot_spell_is_an_error() -> None:
    """An infinity that was read from `1e400` is not written."""
    with pytest.raises(InputError):
        write({"a": float("inf")})
