"""What is asked about a call: every place of it, whole, and no secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.calls import Call, PathSubject, UrlSubject
from broker.errors import LimitError
from broker.limits import MAX_OPINION_CHARS, MAX_OPINION_QUESTIONS
from broker.opinions.question import questions
from tests.pdpkit import path

URL = UrlSubject("url", "https://u:p@h.example/a?k=s", "https", "h.example", 443, ("h.example",))


def test_each_place_is_asked_about() -> None:
    """A path that was spelled one way and leads another is asked about as both."""
    moved = PathSubject("path", "a/../b", "write", ("a/b/", "b/"))
    assert [q.name for q in questions(Call("edit", paths=(moved, path("c"))))] == ["a/b", "b", "c"]
    assert questions(Call("ls", paths=(PathSubject("path", ".", "read", ("",)),)))[0].name == "."


def test_what_lies_outside_is_asked_about_by_its_whole_name() -> None:
    """A place outside of the workspace is absolute, and said to be outside."""
    (asked,) = questions(Call("read", paths=(PathSubject("path", "../k", "read", (), "/x/k"),)))
    assert (asked.name, asked.more["outside"]) == ("/x/k", True)


def test_a_url_is_asked_about_without_what_may_be_secret() -> None:
    """Neither the path, nor the query, nor a password of a URL is handed on."""
    (asked,) = questions(Call("fetch", urls=(URL,)))
    assert (asked.kind, asked.name) == ("url", "https://h.example:443")
    assert asked.more == {"scheme": "https", "host": "h.example", "port": 443}


def test_a_command_is_handed_on_without_its_secrets() -> None:
    """A policy sees the command, and not the password in it."""
    asked = questions(Call("sh", opaque=True, command="PASSWORD=hunter2 make"))
    assert [q.kind for q in asked] == ["command", "tool"]
    assert "hunter2" not in asked[0].name
    assert "make" in asked[0].name


def test_calls_inside_a_call_are_asked_about() -> None:
    """What an inner call touches is asked about under the inner tool's name."""
    outer = Call("batch", nested=(Call("read", paths=(path("a"),)), Call("think")))
    found = [(q.tool, q.kind, q.name) for q in questions(outer)]
    assert found == [("read", "path", "a"), ("think", "tool", "think")]


def test_too_much_is_not_asked() -> None:
    """A call that touches too much, or something with too long a name, is no question."""
    many = tuple(path(str(n)) for n in range(MAX_OPINION_QUESTIONS + 1))
    with pytest.raises(LimitError, match="split it"):
        questions(Call("read", paths=many))
    assert len(questions(Call("read", paths=many[1:]))) == MAX_OPINION_QUESTIONS
    with pytest.raises(LimitError, match="characters"):
        questions(Call("read", paths=(path("x" * (MAX_OPINION_CHARS + 1)),)))


@given(st.lists(st.sampled_from("abc"), max_size=4), st.integers(0, 2), st.booleans())
def test_nothing_goes_unasked(places: list[str], urls: int, opaque: bool) -> None:
    """However many things a call touches, each is in a question, and there is always one."""
    call = Call("t", paths=tuple(map(path, places)), urls=(URL,) * urls, opaque=opaque)
    asked = questions(call)
    assert asked
    assert [q.name for q in asked if q.kind == "path"] == places
    assert sum(q.kind == "url" for q in asked) == urls
    assert any(q.kind == "tool" for q in asked) == (opaque or not (places or urls))
