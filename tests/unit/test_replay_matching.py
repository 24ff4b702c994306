"""A request is found again by a ladder, and the rung is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.replay.matching import (
    SMALL,
    KeptRequest,
    Ladder,
    RequestShape,
    difference,
    distance,
    path_of,
    shape_of,
)
from broker.replay.normal import Normal

NORMAL = Normal({})
PATH = "/v1/messages"
LONG = "a long message of which little changes " * 10


def _shape(*messages: object, **around: object) -> RequestShape:
    return shape_of({"model": "m", "messages": list(messages), **around}, NORMAL)


def _ladder(*rows: tuple[str, RequestShape]) -> Ladder:
    return Ladder(KeptRequest(n, PATH, name, shape) for n, (name, shape) in enumerate(rows))


def _rungs(ladder: Ladder, *shapes: RequestShape) -> list[tuple[int, int | None]]:
    found = [ladder.match(PATH, shape) for shape in shapes]
    return [(match.rung, match.kept.seq if match.kept else None) for match in found]


def test_rung_1_is_the_same() -> None:
    """A request that is the same is rung 1, in whatever order conversations take turns."""
    rows = [("main", _shape("a")), ("sub-1", _shape("b")), ("main", _shape("a", "x", "c"))]
    asked = [_shape("b"), _shape("a"), _shape("a", "x", "c")]
    assert _rungs(_ladder(*rows), *asked) == [(1, 1), (1, 0), (1, 2)]


def test_each_recorded_request_is_matched_once() -> None:
    """A request that was recorded twice is there twice, in order, and then no more."""
    one = _shape("a")
    assert _rungs(_ladder(("main", one), ("main", one)), one, one, one) == [
        (1, 0),
        (1, 1),
        (4, None),
    ]


def test_rung_2_is_next_with_little_distance() -> None:
    """With as many messages and next to no distance, the next one is a minor divergence."""
    ladder = _ladder(("main", _shape(LONG + "one", "b")))
    match = ladder.match(PATH, _shape(LONG + "two", "b"))
    assert (match.rung, match.kept and match.kept.seq) == (2, 0)
    assert 0 < match.distance <= SMALL
    assert match.why.startswith("message 1 of 2 differs: ")


def test_rung_2_needs_as_many_messages() -> None:
    """One message more is no minor divergence, however short it is."""
    assert _rungs(_ladder(("main", _shape(LONG))), _shape(LONG, "x")) == [(4, None)]


def test_rung_3_is_the_same_last_message() -> None:
    """After another past the same last message is a major divergence."""
    ladder = _ladder(("main", _shape("one past", "go")))
    match = ladder.match(PATH, _shape("quite another one", "and more", "go"))
    assert (match.rung, match.kept and match.kept.seq) == (3, 0)
    assert match.distance > SMALL


def test_rung_4_is_none_and_names_the_nearest() -> None:
    """Nothing is taken, and the nearest request and the first difference are named."""
    ladder = _ladder(("main", _shape("a", "b")))
    match = ladder.match(PATH, _shape("a", "something else"))
    assert (match.rung, match.kept) == (4, None)
    assert match.why.startswith("nearest to event 0: message 2 of 2 differs")
    assert len(ladder.left) == 1


def test_a_lower_rung_waits_for_a_higher_one() -> None:
    """What is the same in another conversation goes before what is alike in the nearest."""
    rows = [("main", _shape(LONG + "one")), ("sub-1", _shape(LONG + "two"))]
    assert _rungs(_ladder(*rows), _shape(LONG + "two"), _shape(LONG + "one")) == [(1, 1), (1, 0)]


def test_only_the_next_of_a_conversation_is_alike() -> None:
    """A later request of a conversation is no minor divergence of its cursor."""
    rows = [("main", _shape("x")), ("main", _shape(LONG + "one"))]
    assert _rungs(_ladder(*rows), _shape(LONG + "two")) == [(4, None)]


def test_the_path_says_which_question_it_is() -> None:
    """The same body at another path is another question; a query plays no part."""
    ladder = _ladder(("main", _shape("a")))
    assert (
        ladder.match("/v1/responses", _shape("a")).why
        == "no more requests to `/v1/responses` were recorded"
    )
    assert ladder.match(path_of("/v1/messages?beta=true"), _shape("a")).rung == 1


def test_other_protocols_have_messages_too() -> None:
    """What is `input` or `contents` elsewhere is taken for messages."""
    for name in ("input", "contents"):
        assert shape_of({name: ["a", "b"]}, NORMAL).messages == ('"a"', '"b"')
    assert shape_of("no object", NORMAL).messages == ()


@pytest.mark.parametrize(
    ("one", "two", "said"),
    [
        (
            _shape("a"),
            _shape("a", tools=[]),
            "`tools` differs: `nothing` was recorded, `[]` is asked",
        ),
        (_shape("a", "b"), _shape("a"), "2 messages were recorded, 1 are asked"),
        (_shape("a"), _shape("a"), "nothing differs"),
    ],
)
def test_a_difference_is_told_in_words(one: RequestShape, two: RequestShape, said: str) -> None:
    """The first difference is named, with what stood there."""
    assert difference(one, two) == said


bodies = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["m", "n"]),
        "messages": st.lists(st.text("abc", max_size=5), max_size=4),
    }
).map(lambda body: shape_of(body, NORMAL))


@given(bodies, bodies)
def test_distance_is_nothing_for_the_same_alone(one: RequestShape, two: RequestShape) -> None:
    """The distance lies between 0 and 1, is the same both ways, and 0 just for what is the same."""
    far = distance(one, two)
    assert 0 <= far <= 1
    assert far == distance(two, one)
    assert (far == 0) == (one.digest == two.digest)


@given(st.lists(st.tuples(st.sampled_from(["main", "sub-1"]), bodies), max_size=6), st.data())
def test_a_run_played_to_itself_is_all_rung_1(
    rows: list[tuple[str, RequestShape]], data: st.DataObject
) -> None:
    """Whatever order the recorded requests come in again, each is rung 1 and none is left."""
    ladder = _ladder(*rows)
    asked = data.draw(st.permutations([shape for _, shape in rows]))
    assert [ladder.match(PATH, shape).rung for shape in asked] == [1] * len(rows)
    assert ladder.left == ()
