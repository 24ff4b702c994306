"""A receipt's entries read as a story, and no entry can deceive or break it."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.authorize import ASK
from broker.cli.story import refuses, story_line
from broker.receipt import Entry

AT = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z


def entry(kind: str, **data: object) -> Entry:
    """Return an entry, as the verifier gives it."""
    return Entry(5, "0" * 64, kind, AT + 1_500_000, data)


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (
            entry("open", agent="claude", workspace="/ws"),
            "open       2026-01-01 UTC  claude in /ws",
        ),
        (entry("intent", line="fix it"), "intent     fix it"),
        (entry("ticket", ticket="ab", caveats=["calls=1"]), "ticket     ab  calls=1"),
        (entry("ticket", ticket="ab", caveats=[]), "ticket     ab  no caveat"),
        (
            entry("ticket", ticket="cd", caveats=["calls=1"], replaces="ab"),
            "ticket     cd  calls=1  (replaces ab)",
        ),
        (
            entry("ticket", ticket="cd", caveats=["calls=1"], beside="ab"),
            "ticket     cd  calls=1  (for one call beside ab)",
        ),
        (
            entry(
                "decision",
                decision="allow",
                tool="read",
                subjects=[{"path": "src/a", "access": "read"}],
                enforcement="gate",
                actor="main",
            ),
            "allowed    read  src/a",
        ),
        (
            entry(
                "decision",
                decision="allow",
                tool="sh",
                subjects=[{"command": "ls"}],
                enforcement="none",
                actor="agent:x",
            ),
            "allowed    sh  ls  (enforcement: none)  by agent:x",
        ),
        (
            entry(
                "decision",
                decision="refuse",
                tool="fetch",
                subjects=[{"url": f"https://{n}.test"} for n in range(6)],
                caveat="hosts",
                reason=f"no; {ASK}",
            ),
            "refused    fetch  https://0.test, https://1.test, https://2.test, https://3.test "
            "and 2 more  (hosts) no",
        ),
        (
            entry("delegate", decision="allow", asked_by="main", ticket="cd", caveats=["calls=1"]),
            "delegate   asked by main: cd  calls=1",
        ),
        (
            entry("delegate", decision="refuse", asked_by="kid", caveat="tools", reason="widens"),
            "delegate   asked by kid, refused (tools): widens",
        ),
        (entry("seal", reason="complete", n=5), "seal       complete"),
        (entry("note", text="hi", source="launch"), "note       launch says: hi"),
        (entry("note", other="hi"), 'note       {"other": "hi"}'),
        (entry("result", call="c1", ok=True, output="00"), "result     call c1 ended well"),
        (entry("result", call="", ok=False), "result     call failed"),
        (entry("dropped", count=3), 'dropped    {"count": 3}'),
        (
            entry("recover", bytes=9, kept="receipt.torn-1-ab", sha256="0" * 64),
            "recover    a line of 9 bytes was cut off, and is in receipt.torn-1-ab",
        ),
        (
            entry("decision", decision="allow", tool="read", enforcement="gate", _sd=["a", "b"]),
            "allowed    read  (2 fields kept out)",
        ),
        (entry("intent", _sd=["a"]), "intent     (1 field kept out)"),
    ],
)
def test_lines(shown: Entry, said: str) -> None:
    """Each kind of entry is one line: number, time of day, what happened, to what."""
    assert story_line(shown) == f"   5  00:00:00.001  {said}"


data_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = ("agent", "actor", "asked_by", "caveat", "caveats", "decision", "line", "reason",
         "subjects", "ticket", "tool")  # fmt: skip


@given(
    st.sampled_from(["open", "intent", "ticket", "delegate", "decision", "seal", "x"]),
    st.dictionaries(st.sampled_from(NAMES), data_values),
)
def test_any_entry_is_one_plain_line(kind: str, data: dict[str, object]) -> None:
    """Whatever an entry holds, it is one line without controls or invisible characters."""
    line = story_line(entry(kind, **data))
    assert all(unicodedata.category(c)[0] != "C" for c in line)
    assert refuses(entry(kind, **data)) is (data.get("decision") == "refuse")


def test_an_unknown_shape_is_shown_as_data() -> None:
    """An entry without the fields that are known is shown as what it holds."""
    assert json.loads(story_line(entry("intent", other=[1]))[31:]) == {"other": [1]}
