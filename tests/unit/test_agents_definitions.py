"""Definitions of subagents: only what every parser of YAML reads alike is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.agents.definitions import Definitions, Listing, definition, read_head
from broker.errors import InputError
from broker.limits import MAX_SETTINGS_BYTES

HEAD = "---\nname: looker\ndescription: looks, and # nothing else\n{}\n---\nLook: around.\n"


def listed(folder: Path, text: str, kind: str = "looker") -> Listing | None:
    """Write a definition, and return what it lists."""
    (folder / "a.md").write_text(text, encoding="utf-8", newline="")
    return Definitions([folder]).listed(kind)


@pytest.mark.parametrize(
    "tools",
    [
        "tools: Read, Grep",
        "tools: 'Read, Grep'",
        'tools: "Read,Grep"  # both',
        "tools: [Read, 'Grep']",
        "tools:\n  - Read\n  - Grep",
        "tools:\n- Read\n# and\n- Grep\n",
        "tools: Read, Grep\nhooks:\n  PreToolUse:\n    - matcher: x",
        "tools : Read, Grep(src/**)",
    ],
)
def test_a_list_has_many_spellings(tmp_path: Path, tools: str) -> None:
    """With commas, in brackets, line by line, quoted, commented, beside keys of any shape."""
    assert listed(tmp_path, HEAD.format(tools)) == Listing(("Read", "Grep"))


@pytest.mark.parametrize("change", [("\n", "\r\n"), ("\n", "\r"), ("---\nname", "\ufeff---\nname")])
def test_lines_and_marks_do_not_matter(tmp_path: Path, change: tuple[str, str]) -> None:
    """A head in CRLF, or behind a byte order mark, is the same head."""
    text = HEAD.format("tools: Read").replace(*change)
    assert listed(tmp_path, text) == Listing(("Read",))


@pytest.mark.parametrize(
    "tools",
    [
        "tools: Read\ntools: Bash",
        "tools: Read\n'tools': Bash",
        "tools:",
        "tools: &a Read",
        "tools: *a",
        "tools: |\n  Read",
        "tools: [Read,\n  Bash]",
        'tools: "Re\\x61d"',
        "? tools\n: Read",
        "<<: x",
        "tools: Read\n  Bash",
        "tools:\n  - Read\n  more",
        "tools: !!str Read",
        "name: other",
        "tools: 'Read' 'x'",
    ],
)
def test_what_may_be_read_in_two_ways_is_an_error(tmp_path: Path, tools: str) -> None:
    """A key twice, aliases, escapes, text over several lines: no subagent starts by it."""
    with pytest.raises(InputError, match=r"a\.md"):
        listed(tmp_path, HEAD.format(tools))


def test_a_head_that_is_indented_is_an_error(tmp_path: Path) -> None:
    """Its keys would be read by a parser, and passed over here."""
    with pytest.raises(InputError):
        listed(tmp_path, "---\n name: looker\n tools: Read\n---\n")


def test_a_file_that_cannot_be_read_may_define_any_kind(tmp_path: Path) -> None:
    """Too long, a pipe, a link to nowhere: no kind is known any more."""
    (tmp_path / "big.md").write_text("-" * (MAX_SETTINGS_BYTES + 1))
    with pytest.raises(InputError, match=r"big\.md"):
        Definitions([tmp_path]).listed("looker")
    (tmp_path / "big.md").unlink()
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(InputError, match=r"pipe\.md"):
        Definitions([tmp_path]).listed("looker")


def test_several_definitions_all_hold(tmp_path: Path) -> None:
    """Whichever the agent takes, its subagent holds no more than each of them gives."""
    (tmp_path / "b.md").write_text("---\nname: Looker\ntools: Grep, Bash\n---\n")
    found = listed(tmp_path, HEAD.format("tools: Read, Grep"))
    assert found == Listing(("Grep",))


def test_no_list_is_no_limit(tmp_path: Path) -> None:
    """Without a list, with all tools, of another kind, or without a head: nothing is said."""
    assert listed(tmp_path, HEAD.format("color: red")) == Listing()
    assert listed(tmp_path, HEAD.format("tools: '*'")) == Listing()
    assert listed(tmp_path, HEAD.format("tools: Read"), "other") is None
    assert listed(tmp_path, "no head\n") is None
    assert Definitions([tmp_path / "none"]).listed("looker") is None
    left_out = listed(tmp_path, HEAD.format("disallowedTools: Bash, Write"))
    assert left_out == Listing(None, ("Bash", "Write"))


def test_a_file_s_name_names_its_kind(tmp_path: Path) -> None:
    """Where the head has no name, and with or without a second ending."""
    path = tmp_path / "looker.agent.md"
    path.write_text("---\ntools: [read]\n---\n")
    assert definition(path) == ("looker", Listing(("read",)))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "deep.md").write_text("---\ntools: [read]\n---\n")
    spelled = Definitions([tmp_path], lambda tool: [tool.title()], deep=True).listed("deep")
    assert spelled == Listing(("Read",))


@given(st.text(max_size=200))
def test_any_head_is_read_or_refused(text: str) -> None:
    """Whatever stands there, there is an answer or an error of ours."""
    try:
        found = read_head(f"---\n{text}\n---\n")
    except InputError:
        return
    assert all(isinstance(value, str | tuple) for value in found.values())
