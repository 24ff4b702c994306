"""`broker policy diff` shows by example what two policies tell apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.console import Console

HEAD = "# A policy.\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker_home: Path) -> Path:
    """A folder for policies, where the person stands."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, name: str, *lines: str) -> str:
    """Write a policy, and return how it is named."""
    (folder / f"{name}.scope").write_text(HEAD + "\n".join(lines) + "\n")
    return f"./{name}.scope"


def test_equal_policies_differ_in_nothing(broker: Console, files: Path) -> None:
    """Another spelling of the same scope is no difference."""
    one = write(files, "a", "tools = Read, Edit", "paths = src/**, docs")
    two = write(files, "b", "paths = docs, src", "tools = Edit,Read")
    said = broker("policy", "diff", one, two)
    assert (said.code, said.err) == (0, "")
    assert said.out.count("nothing") == 2


def test_an_example_is_a_call_of_a_known_tool(broker: Console, files: Path) -> None:
    """A place that only one has is shown as a call that a person knows, both ways."""
    one = write(files, "a", "tools = Read, Edit", "paths = src/**", "calls = 9")
    two = write(files, "b", "tools = Read, Edit", "paths = src/a/**, doc", "calls = 5")
    said = broker("policy", "diff", one, two)
    assert said.code == 1
    first, second = said.out.split("@b allows, @a refuses:")
    assert 'Read(file_path="src")  (paths)' in first
    assert "as call 6  (calls)" in first
    assert 'Read(file_path="doc")  (paths)' in second


def test_every_example_can_be_checked(broker: Console, files: Path) -> None:
    """`broker check` answers as the example says, under both policies."""
    one = write(files, "a", "tools = Read, Edit, WebFetch", "paths = src/**", "hosts = a.test")
    two = write(files, "b", "tools = Read, Edit, WebFetch", "paths = src/a/**", "hosts = b.test")
    ways: Any = broker("policy", "diff", one, two, "--json").json()
    checked = 0
    for way, (yes, no) in zip(ways, [(one, two), (two, one)], strict=True):
        for each in way["examples"]:
            if each["known_tool"]:
                words = [each["tool"], *(f"{k}={v}" for k, v in each["arguments"].items())]
                assert broker("check", *words, "--scope", f"@{yes}").code == 0
                refused = broker("check", *words, "--scope", f"@{no}")
                assert refused.code == 1
                assert refused.out.startswith(f"refused ({each['caveat']})")
                checked += 1
    assert checked >= 3


def test_arguments_are_shown(broker: Console, files: Path) -> None:
    """A rule's example has the arguments that tell the two apart."""
    one = write(files, "a", 'tools = pay(to in {"A", "B"}, amount<=9)')
    two = write(files, "b", 'tools = pay(to="A", amount<=9)')
    said = broker("policy", "diff", one, two)
    assert 'pay(to="B", amount=0)  (tools)' in said.out
    assert said.out.rstrip().endswith("nothing")


def test_what_cannot_be_decided_is_said(broker: Console, files: Path) -> None:
    """Two lists with rules in one policy are not weighed together, and never called equal."""
    one = write(files, "a", 'tools = pay(to="A")', 'tools = pay(to in {"A", "B"})')
    two = write(files, "b", 'tools = pay(to="A")')
    said = broker("policy", "diff", one, two)
    assert said.code == 2
    assert "not decided" in said.err


def test_what_is_no_policy(broker: Console, files: Path) -> None:
    """Bad input is told on stderr, with exit code 2."""
    said = broker("policy", "diff", "review", "no-such")
    assert (said.code, said.out) == (2, "")
