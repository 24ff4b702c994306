"""`broker scope` reads a scope and says what it means."""

from __future__ import annotations

import re
from pathlib import Path

from tests.console import Console


def test_show(broker: Console) -> None:
    """Every caveat is shown with its meaning, what is left open, and the text that is kept."""
    said = broker("scope", "show", "paths=./src/**", "calls=2", "until=1s")
    assert (said.code, said.err) == (0, "")
    head, besides, kept = said.out.split("\n\n")
    assert "- src and everything below it" in head
    assert "2 calls in all" in head
    assert re.search(r"until \d{4}-\d\d-\d\dT\S+Z \(in 1s\)", head) or "(now)" in head
    assert "no URL is reached" in besides
    lines = kept.splitlines()
    assert lines[:3] == ["Kept as", "    paths=src/**", "    calls=2"]
    assert re.fullmatch(r"    until=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", lines[3])


def test_what_is_kept_reads_back(broker: Console) -> None:
    """The canonical texts are a scope themselves, and mean the same."""
    first = broker("scope", "show", "tools=@reads, edit_file", "hosts=A.example", "--json").json()
    again = broker("scope", "show", *first["texts"], "--json").json()
    assert again["caveats"] == first["caveats"]
    assert first["caveats"][1] == {"kind": "hosts", "value": ["a.example"]}


def test_warnings(broker: Console) -> None:
    """A key that is given twice is warned of on stderr, and stays well-formed."""
    words = ("tools=a,b", "tools=a")
    for command in ("show", "check"):
        said = broker("scope", command, *words)
        assert said.code == 0
        assert said.err.startswith("warning: `tools` is given 2 times")
    assert len(broker("scope", "show", *words, "--json").json()["warnings"]) == 1


def test_check(broker: Console) -> None:
    """A well-formed scope is 0; a malformed one 2, with a caret and the nearest spelling."""
    assert broker("scope", "check", "calls=3", "paths=src").out == "well-formed: 2 caveats\n"
    said = broker("scope", "check", "calls=3", "path=src")
    assert (said.code, said.out) == (2, "")
    assert said.err.splitlines() == [
        "broker: no such key `path`",
        "  path=src",
        "  ^",
        "  did you mean `paths`?",
    ]
    assert broker("scope", "check").code == 2


def test_policies_and_catalogs_of_a_workspace(broker: Console, tmp_path: Path) -> None:
    """A policy is shown as what it stands for; a file of the workspace is named with its path."""
    assert "no host at all" in broker("scope", "show", "@review").out
    (tmp_path / "team.scope").write_text("# Ours.\ncalls = 7\n")
    said = broker("scope", "show", f"@{tmp_path}/team.scope")
    assert "7 calls in all" in said.out
    assert broker("scope", "show", "@nobody").code == 2


def test_rules_are_explained(broker: Console) -> None:
    """A rule is told argument by argument, with what becomes of the others, and what is idle."""
    said = broker("scope", "show", "tools=@reads,fetch(url host in {a.test}),read_file(path)")
    assert "and fetch, when" in said.out
    assert "- url leads to a.test" in said.out
    assert "- body: anything, or nothing" in said.out
    assert "the conditions on `read_file` change nothing: `@reads`" in said.err
    looking = broker("scope", "show", "tools=*(… in intent)")
    assert "it looks into the line that you type" in looking.out
    wrong = broker("scope", "check", 'tools=fetch(ulr="x")')
    assert (wrong.code, "did you mean `url`?" in wrong.err) == (2, True)
