"""Recognising canonical data by its shape."""

from __future__ import annotations

import pytest

from broker.receipt import shapes as shapes_module
from broker.receipt.shapes import Shapes


def learned(*texts: str, room: int = 256) -> Shapes:
    """Return a memory of some texts."""
    shapes = Shapes(room=room)
    for text in texts:
        shapes.learn(text, text.encode(), 0, len(text.encode()))
    return shapes


def knows(shapes: Shapes, text: str) -> bool:
    content = text.encode()
    return shapes.find(content, 0, len(content)) is not None


@pytest.mark.parametrize(
    "text",
    [
        '{"a":"other {[,:]} é","b":1}',
        '{"a":"","b":-999999999999999}',
        '{"a":"\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f","b":0}',
        '{"a":"\u2028\x7f","b":20}',
    ],
)
def test_other_values_of_a_shape(text: str) -> None:
    """Other texts and integers in the same places are known, escapes and all."""
    assert knows(learned('{"a":"x","b":1}'), text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"a":"x","c":1}',
        '{"c":"x","b":1}',
        '{"b":1,"a":"x"}',
        '{"a":"x", "b":1}',
        '{"a":"\\u0061","b":1}',
        '{"a":"\\u001F","b":1}',
        '{"a":"\\u000a","b":1}',
        '{"a":"\\/","b":1}',
        '{"a":"\t","b":1}',
        '{"a":"x","b":1.0}',
        '{"a":"x","b":1e5}',
        '{"a":"x","b":01}',
        '{"a":"x","b":-0}',
        '{"a":"x","b":1000000000000000}',
        '{"a":"x","b":true}',
        '{"a":null,"b":1}',
        '{"a":"x","b":1}"',
        '{"a":"x","b":1}\n',
        '{"a":"x","b":1',
    ],
)
def test_what_has_another_shape(text: str) -> None:
    """Whatever is not canonical, or has other keys or kinds of values, is not known."""
    assert not knows(learned('{"a":"x","b":1}'), text)


def test_lists_of_texts_have_one_shape() -> None:
    """A list of texts is known at any length; a list of other things at its own only."""
    shapes = learned('{"a":["x"]}', '{"b":[1,"x"]}')
    for text in ('{"a":[]}', '{"a":["y","é"]}', '{"b":[2,""]}'):
        assert knows(shapes, text)
    for text in ('{"a":["y",]}', '{"a":["y" ]}', '{"a":[1]}', '{"b":[1]}', '{"b":["x",1]}'):
        assert not knows(shapes, text)


def test_keys_that_mean_something_to_a_pattern() -> None:
    """A key is taken by the letter; one that needs an escape is not learned."""
    shapes = learned('{".*":1}', '{"a\\n":1}', '{"a|b":{"(":null}}')
    assert knows(shapes, '{".*":2}')
    assert knows(shapes, '{"a|b":{"(":null}}')
    for text in ('{"xx":2}', '{"a\\n":1}', '{"a":{"(":null}}'):
        assert not knows(shapes, text)


def test_there_is_room_for_so_many() -> None:
    """A flood of shapes fills the memory and no more; what was learned stays."""
    texts = [f'{{"a{i}":"x"}}' for i in range(300)]
    assert [knows(learned(*texts[:5], room=2), text) for text in texts[:5]] == [True] * 2 + [
        False
    ] * 3
    assert len(learned(*texts)._known) == 24


def test_what_is_met_often_is_tried_first() -> None:
    """A shape moves up each time it is found."""
    shapes = learned('{"a":1}', '{"b":1}', '{"c":1}')
    before = [*shapes._known]
    for _ in range(2):
        assert knows(shapes, '{"c":5}')
    assert shapes._known == [before[2], before[0], before[1]]


def test_data_within_a_line() -> None:
    """What must stand around the data is part of the match, and so are its bounds."""
    shapes = Shapes("<", ">")
    shapes.learn('{"a":1}', b'..<{"a":1}>..', 2, 11)
    assert shapes.find(b'..<{"a":7}>..', 2, 11) is not None
    for text, start, stop in ((b'..<{"a":7})..', 2, 11), (b'..<{"a":7}>..', 2, 12)):
        assert shapes.find(text, start, stop) is None


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let even one text be held to the shapes together with others."""
    monkeypatch.setattr(shapes_module, "_MANY", 1)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("more", [[], [b'{"a":"\\n"}'], [b'{"b":1}', b'{"a":""}']])
def test_many_at_once(more: list[bytes]) -> None:
    """Texts of several shapes, with and without escapes, are known together."""
    shapes = learned('{"a":"x"}', '{"b":1}')
    assert shapes.all_fit([b'{"a":"y"}', *more])


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "texts",
    [
        [b'{"a":"x', b'","b":"x"}'],
        [b'{"a":"', b'","b":"x"}', b'{"a":"x","b":"x"}'],
        [b'{"a":"x","b":"x"}', b'{"a":"x","b":"\x1f"}'],
        [b'{"a":"x","b":"x"}', b'{"a":"x","b":"\\/"}'],
        [b'{"a":"x","b":"x"}', b""],
        [b'{"a":"x","b":"x"} ', b'{"a":"x","b":"x"}'],
        [b'{"a":"x","c":"x"}'],
    ],
)
def test_many_of_which_one_is_odd(texts: list[bytes]) -> None:
    """No text borrows from the next one, and one odd text is enough."""
    assert not learned('{"a":"x","b":"x"}').all_fit(texts)


def test_a_few_are_not_worth_it() -> None:
    """Nothing is compiled for a few texts, nor without end for shapes that keep coming."""
    shapes = learned('{"a":"x"}')
    assert not shapes.all_fit([b'{"a":"x"}'] * 31)
    assert shapes.all_fit([b'{"a":"x"}'] * 32)
    for i in range(80):
        text = f'{{"a{i}":"x"}}'
        shapes.learn(text, text.encode(), 0, len(text))
        known = shapes.all_fit([text.encode()] * 32)
    assert not known
    assert knows(shapes, '{"a79":"y"}')
