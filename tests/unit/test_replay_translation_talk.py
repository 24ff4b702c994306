"""Names and ids that any protocol takes, and back."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from broker.replay.translation.talk import (
    ImagePart,
    OfferedTool,
    SpokenTurn,
    TextPart,
    ToolNames,
    arguments_of,
    as_object,
    lawful_id,
    same_turns,
    whole,
)

_LAWFUL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAMES = st.text(max_size=90) | st.sampled_from(["a.b", "a_b", "a__b", "x" * 70])


@given(st.lists(st.tuples(_NAMES, st.sampled_from(["", "mcp__n", "a"])), unique=True, max_size=6))
def test_every_tool_has_a_lawful_name_and_is_found_by_it(rows: list[tuple[str, str]]) -> None:
    """However names look, no two tools get one name, and each is found again by its own."""
    tools = [OfferedTool(name, space=space) for name, space in rows]
    names = ToolNames(tools)
    given_ = [names.out(tool.name, tool.space) for tool in tools]
    assert all(_LAWFUL.fullmatch(name) for name in given_)
    assert len(set(given_)) == len(tools)
    assert [names.back(name) for name in given_] == tools


@given(st.text(), st.text())
def test_ids_are_lawful_and_stay_apart(one: str, two: str) -> None:
    """Two calls are never taken for one."""
    assert _LAWFUL.fullmatch(lawful_id(one))
    assert (lawful_id(one) == lawful_id(two)) == (one == two)


def test_a_call_is_told_by_the_name_of_its_tool() -> None:
    """Also one of a group, and one whose name has a dot of its own."""
    names = ToolNames([OfferedTool("get", space="mcp.a"), OfferedTool("do.it")])
    assert names.spelled(whole("get", "mcp.a")) == names.out("get", "mcp.a")
    assert names.spelled("do.it") == names.out("do.it")
    assert names.spelled("gone") == "gone"


def test_arguments_and_images_are_read() -> None:
    """What spells no object stays a text; an address may hold an image or not."""
    assert arguments_of("[1]") == "[1]"
    assert as_object(arguments_of("{bad")) == {"input": "{bad"}
    assert ImagePart.read("https://x/y.png") == ImagePart(url="https://x/y.png")
    assert ImagePart.read(ImagePart("image/png", "aGk=").address).data == "aGk="


def test_turns_of_one_speaker_are_one() -> None:
    """And one in which nothing is said is none."""
    a, b = SpokenTurn("user", (TextPart("a"),)), SpokenTurn("user", (TextPart("b"),))
    assert same_turns([a, SpokenTurn("model", ()), b]) == (SpokenTurn("user", a.parts + b.parts),)
