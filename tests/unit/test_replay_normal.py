"""What differs between two runs of the same agent is no difference; what is asked is one."""

from __future__ import annotations

import pytest

from broker.replay.normal import Normal, spelled

NORMAL = Normal({"/home/a/ws": "<cwd>", "/home/a": "<home>"})


def _same(one: object, two: object, normal: Normal = NORMAL) -> bool:
    return spelled(normal.body(one)) == spelled(normal.body(two))


ALIKE = [
    ("N1 metadata", {"metadata": {"user_id": "a"}, "m": 1}, {"metadata": {"user_id": "b"}, "m": 1}),
    ("N1 cache key", {"prompt_cache_key": "a"}, {"prompt_cache_key": "b"}),
    (
        "N1 cache marks",
        {"messages": [{"text": "a", "cache_control": {"type": "ephemeral"}}]},
        {"messages": [{"text": "a"}]},
    ),
    (
        "N2 tools",
        {"tools": [{"name": "a"}, {"name": "b"}]},
        {"tools": [{"name": "b"}, {"name": "a"}]},
    ),
    (
        "N3 calls",
        {"messages": [{"id": "toolu_01abcdefgh"}, {"tool_use_id": "toolu_01abcdefgh"}]},
        {"messages": [{"id": "toolu_99zyxwvuts"}, {"tool_use_id": "toolu_99zyxwvuts"}]},
    ),
    (
        "N3 uuids",
        {"m": "at 9f2c14a0-3b71-4c2e-8f10-0123456789ab"},
        {"m": "at 00000000-3b71-4c2e-8f10-0123456789ab"},
    ),
    ("N3 digests", {"m": "commit " + "a1" * 20}, {"m": "commit " + "b2" * 20}),
    ("N4 date", {"system": "Today is 2026-11-30."}, {"system": "Today is 2027-01-02."}),
    (
        "N4 instant",
        {"m": "2026-11-30T08:00:00.123Z"},
        {"m": "2026-12-01 09:10:11+01:00"},
    ),
    ("N4 long date", {"m": "Monday, November 30, 2026"}, {"m": "Friday, January 1, 2027"}),
    ("N4 ctime", {"m": "Mon Nov 30 20:04:28 2026"}, {"m": "Tue Dec 01 01:02:03 2026"}),
    ("N4 seconds", {"m": [1796025600]}, {"m": [1796025700]}),
    ("N4 in a name", {"m": "read_1796072987754_0"}, {"m": "read_1796072997844_0"}),
    ("N4 milliseconds", {"m": 1796025600123}, {"m": 1796025700456}),
    ("N6 loopback", {"m": "http://127.0.0.1:4711/x"}, {"m": "http://localhost:5000/x"}),
    ("N7 span", {"m": "ran in 12.5 ms"}, {"m": "ran in 3ms"}),
    ("N7 field", {"m": "<duration_ms>5082</duration_ms>"}, {"m": "<duration_ms>38</duration_ms>"}),
    (
        "N3 prefixed",
        {"m": "fco_01a22e21-e44f-7d42-a7f1-83c6b2cf56ed"},
        {"m": "fco_01a22e22-182a-7de0-af07-187e11e8b275"},
    ),
    ("N3 process", {"m": "Process Group PGID: 31249"}, {"m": "Process Group PGID: 42"}),
    ("N3 chunk", {"m": "Chunk ID: 98ccbe"}, {"m": "Chunk ID: 508041"}),
    ("N3 hex", {"m": "agentId: ab0164c54acef246b"}, {"m": "agentId: aa75eaeaf152968c1"}),
    ("N8 secrets", {"m": "key [hidden name 0badf00d]"}, {"m": "key [hidden]"}),
    (
        "N9 billing",
        {"system": [{"text": "x-anthropic-billing-header: cc_version=1; cch=a1;\nYou are"}]},
        {"system": [{"text": "x-anthropic-billing-header: cc_version=1; cch=b2;\nYou are"}]},
    ),
]


@pytest.mark.parametrize(("one", "two"), [pair[1:] for pair in ALIKE], ids=[p[0] for p in ALIKE])
def test_what_is_no_difference(one: object, two: object) -> None:
    """Two requests that differ only by what a rule names have one normal form."""
    assert _same(one, two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"model": "gpt-4o-2024-08-06"}, {"model": "gpt-4o-2024-11-20"}),
        ({"messages": ["run a"]}, {"messages": ["run b"]}),
        ({"messages": ["a", "b"]}, {"messages": ["b", "a"]}),
        ({"tools": [{"name": "a"}]}, {"tools": [{"name": "b"}]}),
        ({"m": {"n": 1}}, {"m": {"n": 2}}),
        ({"m": "x 3 files"}, {"m": "x 4 files"}),
        (
            {"m": ["toolu_01abcdefgh", "toolu_01abcdefgh"]},
            {"m": ["toolu_01abcdefgh", "toolu_02abcdefgh"]},
        ),
        ({"m": "/home/a/ws/x"}, {"m": "/home/a/ws/y"}),
        ({"m": True}, {"m": 1}),
    ],
)
def test_what_is_a_difference(one: object, two: object) -> None:
    """What is asked is compared: names, order, numbers, and which identifier is which."""
    assert not _same(one, two)


def test_places_have_names_in_every_spelling() -> None:
    """N5: a folder of the run is named by what it is, the longer one first, with dashes too."""
    here = Normal({"/tmp/x/ws": "<cwd>", "/root": "<home>"})
    said = "in {} of {}, kept below {}"
    one = said.format("/home/a/ws/src", "/home/a", "projects/-home-a-ws/memory")
    two = said.format("/tmp/x/ws/src", "/root", "projects/-tmp-x-ws/memory")
    assert spelled(NORMAL.body({"m": one})) == spelled(here.body({"m": two}))
    assert NORMAL.body({"m": "/home/a/ws"}) == {"m": "<cwd>"}


def test_a_short_place_is_left_alone() -> None:
    """The root folder and the like are no names that could be told from other text."""
    assert Normal({"/": "<cwd>"}).body({"m": "a/b"}) == {"m": "a/b"}


@pytest.mark.parametrize(
    "body", [None, 3, "text", [], [1, {"a": None}], {"": {}}, {"m": float("inf")}]
)
def test_any_body_passes(body: object) -> None:
    """A body of any shape has a normal form."""
    assert isinstance(spelled(NORMAL.body(body)), str)


def test_a_deep_body_passes() -> None:
    """A body that is nested without end is cut, and ends nothing."""
    deep: list[object] = []
    for _ in range(500):
        deep = [deep]
    assert "<deep>" in spelled(NORMAL.body({"m": deep}))
