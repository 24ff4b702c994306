"""The bytes of a request or an answer without their secrets."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.redaction.bodies import hide_body, hide_headers
from broker.redaction.hiding import Hider
from broker.redaction.words import hide_words


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (b'{"apiKey":"k","n":1}', b'{"apiKey":"[hidden]","n":1}'),
        (b'data: {"token":"k"}\n\n', b'data: {"token":"[hidden]"}\n\n'),
        (b"grant=x&client_secret=k&a=b", b"grant=x&client_secret=[hidden]&a=b"),
        (b"PASSWORD=k\n", b"PASSWORD=[hidden]\n"),
        (b'{"password":"k","password":{"type":"string"}}',
         b'{"password":"[hidden]","password":{"type":"string"}}'),
        (b'"PASSWORD=k"', b'"PASSWORD=[hidden]"'),
        (b'{"a":"\\ud800","token":"k"}', b'{"a":"\\ud800","token":"[hidden]"}'),
        (b'{"a":"\xff","token":"k"}', b'{"a":"\xff","token":"[hidden]"}'),
        (b"\xff\xfe PASSWORD=k \xff", b"\xff\xfe PASSWORD=[hidden] \xff"),
    ],
)  # fmt: skip
def test_any_kind_of_body_is_read(content: bytes, kept: bytes) -> None:
    """JSON, streams, forms, text, JSON with two readings, and bytes that are no text."""
    hidden = hide_body(content)
    assert hidden.content == kept
    assert len(hidden.paths) == 1
    assert sum(hidden.counts.values()) == 1


@given(content=st.binary() | st.text().map(str.encode))
def test_bytes_without_secrets_come_back_as_they_are(content: bytes) -> None:
    """What is not changed is the very same object, and what is changed has a path."""
    hidden = hide_body(content)
    assert (hidden.content is content) == (not hidden.paths)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None))
    | st.sampled_from(["PASSWORD=x1", "Bearer abcdef", "https://a:b@c/", "{}"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.text(max_size=4)
        | st.sampled_from(["password", "properties", "type", "default", "token", "name", "value"]),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@example(value=[{"name": "0://0@", "value": 0}], salt=b"s" * 32)
@given(value=VALUES, salt=st.sampled_from([b"", b"s" * 32]))
def test_json_stays_json_and_hiding_twice_hides_no_more(value: object, salt: bytes) -> None:
    """What comes out is JSON of the same shape, and is left as it is by a second pass."""
    once = hide_body(json.dumps(value).encode(), salt)
    assert shape(json.loads(once.content)) == shape(value)
    assert hide_body(once.content, salt).paths == ()


def shape(value: object) -> object:
    """Return the containers of a value, without what its leaves say."""
    if isinstance(value, dict):
        return [shape(inner) for inner in value.values()]
    return [shape(inner) for inner in value] if isinstance(value, list) else None


def test_nesting_without_end_is_text() -> None:
    """A body that is too deep to read is searched as text."""
    deep = b'{"a":' * 50_000 + b'"PASSWORD=k"' + b"}" * 50_000
    assert b"PASSWORD=k" not in hide_body(deep).content


HOSTILE: dict[str, Callable[[int], str]] = {
    "one key many times": lambda n: "{" + '"k":1,' * n + '"k":1}',
    "one key twice": lambda n: "{" + "".join(f'"k{i}":1,' for i in range(n)) + f'"k{n - 1}":1}}',
    "a key without end": lambda n: json.dumps({"K" * 4 * n: ["PASSWORD=k"] * n}),
    "a stream of secrets": lambda n: 'data: {"delta":{"text":"PASSWORD=k "}}\n' * n,
    "a long address": lambda n: "https://u:" + "p" * 40 * n,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_body_takes_time_by_its_length(kind: str) -> None:
    """Whoever writes a body may repeat what is looked at, and gains nothing by it."""

    def took(n: int) -> float:
        body = HOSTILE[kind](n).encode()
        gc.collect()
        gc.disable()  # what other tests have left behind is not looked through meanwhile
        try:
            began = time.process_time()
            hide_body(body)
            return time.process_time() - began
        finally:
            gc.enable()

    took(10)
    small, large = took(1_500), took(24_000)  # by 16, or by 256
    assert large < 30 * small + 0.3


@pytest.mark.parametrize("odd", ["{}", "[]", "null", "1.5", '"a"'])
def test_no_stream_makes_it_fail(odd: str) -> None:
    """What tells one channel from another may be any value, and is searched all the same."""
    row = f'data: {{"type":{odd},"index":{odd},"delta":{{"text":"PASSWORD=hunter2"}}}}\n\n'
    assert b"hunter2" not in hide_body(row.encode()).content


def test_a_large_body_takes_time_by_its_length() -> None:
    """A body of 10 MB with secrets all over is hidden in a time that is linear in its length."""

    def took(messages: int) -> float:
        text = "the key to the token, PASSWORD=hunter2 and so on; " * 60
        rows = [{"role": "user", "content": text} for _ in range(messages)]
        body = json.dumps({"messages": rows}).encode()
        began = time.process_time()
        hidden = hide_body(body)
        assert len(hidden.paths) == messages
        assert b"hunter2" not in hidden.content
        return time.process_time() - began

    small, large = took(300), took(3_000)
    assert large < 25 * small + 1


def test_headers_go_by_name_and_by_form() -> None:
    """Under such a name the whole value goes; elsewhere a part that has the form of a secret."""
    headers = [("Authorization", "Bearer x"), ("Cookie", "a=b"), ("x-a", "ghp_0123456789abcdef01")]
    assert [value for _, value in hide_headers(headers, Hider())] == ["[hidden]"] * 3


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["x", "--password", "my dog"], ["x", "--password", "[hidden]"]),
        (["x", "--password=my dog"], ["x", "--password=[hidden]"]),
        (["env", "PASSWORD=my dog", "run"], ["env", "PASSWORD=[hidden]", "run"]),
        (["curl", "-u", "me:pw", "h"], ["curl", "-u", "me:[hidden]", "h"]),
        (["sh", "-c", "cd /; TOKEN=x y"], ["sh", "-c", "cd /; TOKEN=[hidden] y"]),
        (["x", "--token", "--next"], ["x", "--token", "--next"]),
    ],
)
def test_words_of_a_command(words: list[str], kept: list[str]) -> None:
    """A word that follows such an option goes whole; the number of words stays."""
    assert hide_words(words, Hider()) == kept
