"""Where in its script a conversation stands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.loopback.script import Place, Say, Told, Use, next_turn, place, rows, texts

SAID = st.lists(
    st.builds(
        Told,
        st.sampled_from(["user", "model", "result"]),
        st.sampled_from(
            ["", "plain", "[script one] x", "[script two]", "[script one] [script two]"]
        ),
        st.sampled_from(["", "one-0-0"]),
    ),
    max_size=12,
)


def naive(said: list[Told]) -> tuple[str, int]:
    """Count answers after the last user's text that names a script, as the page says it."""
    named = [i for i, s in enumerate(said) if s.who == "user" and "[script" in s.text]
    if not named:
        return "", sum(s.who == "model" for s in said)
    name = said[named[-1]].text.split("[script ")[-1].split("]")[0]
    return name, sum(s.who == "model" for s in said[named[-1] :])


@given(said=SAID)
def test_a_place_is_the_last_name_and_the_answers_since(said: list[Told]) -> None:
    """Nothing else moves a script along, and nothing is remembered between requests."""
    found = place(said)
    assert (found.name, found.turn) == naive(said)
    assert len(found.results) == sum(s.who == "result" for s in said)


def test_results_without_ids_come_in_the_order_of_their_calls() -> None:
    """A protocol that names no call in its results still tells which is which."""
    said = [
        Told("user", "[script main]"),
        Told("model"),
        Told("result", "a"),
        Told("result", "b"),
        Told("model"),
        Told("result", "c"),
    ]
    assert [r.call for r in place(said).results] == ["main-0-0", "main-0-1", "main-1-0"]


def test_past_the_end_there_is_nothing_to_add() -> None:
    """A script that is over, or not there, ends the conversation and never calls a tool."""
    script = {"main": [Use([("Read", {})]), Say("bye")]}
    assert next_turn(script, Place("main", 0)) == script["main"][0]
    assert next_turn(script, Place("main", 1)) == Say("bye")
    for where in (Place("main", 2), Place("other", 0), Place()):
        assert isinstance(next_turn(script, where), Say)


def test_json_of_any_shape_is_read() -> None:
    """A content may be text or parts; whatever else stands there is passed over."""
    assert texts("a") == "a"
    assert texts([{"text": "a"}, {"type": "image"}, "b", {"text": 1}]) == "a"
    assert texts(None) == ""
    assert rows([1, {"a": 1}, None]) == [{"a": 1}]
    assert rows({"a": 1}) == []
