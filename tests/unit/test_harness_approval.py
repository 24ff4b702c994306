"""Approval: a question that nobody answers with a clear yes is a no."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.capabilities.terminal import FakeTerminal
from broker.catalogs import load_catalogs
from broker.harness.approval import Approver, ask_at
from broker.resolve import Resolver

WRITE = ("write", {"path": "b.txt", "content": "x"})
SHELL = ("shell", {"command": "make"})
FETCH = ("fetch", {"url": "https://a.test/"})


def approver(root: Path, *said_yes: str, ask: object = None) -> Approver:
    """The rules of a run in this workspace."""
    return Approver(Resolver(root, load_catalogs()), said_yes, ask)  # type: ignore[arg-type]  # what a test asks with


def test_without_a_person_what_is_asked_is_denied(tmp_path: Path) -> None:
    """Reading runs; the rest is denied unless the person said yes beforehand."""
    alone = approver(tmp_path)
    assert alone.answer("read", {"path": "a"}, "ask").denied is None
    for tool, arguments in (WRITE, SHELL, FETCH):
        assert "nobody is here" in (alone.answer(tool, dict(arguments), "ask").denied or "")
        assert alone.answer(tool, dict(arguments), "auto").denied is None
    assert approver(tmp_path, "write").answer(*WRITE, "ask").denied is None
    assert approver(tmp_path, "write").answer(*SHELL, "ask").denied is not None


@pytest.mark.parametrize("yes", [True, False])
def test_a_person_who_is_there_is_shown_what_will_run(tmp_path: Path, yes: bool) -> None:
    """The person's answer decides, and they see the tool, its arguments and why they are asked."""
    asked: list[object] = []

    def ask(tool: str, arguments: Mapping[str, object], why: str) -> bool:
        asked.append((tool, dict(arguments), why))
        return yes

    assert (approver(tmp_path, ask=ask).answer(*SHELL, "ask").denied is None) == yes
    assert asked == [(*SHELL, "unseen")]


def test_a_refusal_is_not_asked_about(tmp_path: Path) -> None:
    """What no mode lifts, and what a mode refuses, is no question."""
    asked = approver(tmp_path, ask=lambda *_: pytest.fail("it asked"))
    assert "no mode" in (asked.answer("shell", {"command": "rm -rf /"}, "yolo").denied or "")
    assert "`read-only`" in (asked.answer(*WRITE, "read-only").denied or "")


def test_a_hop_is_judged_without_asking(tmp_path: Path) -> None:
    """An address on the way is refused by what no mode lifts, and else left to the answer."""
    asked = approver(tmp_path, ask=lambda *_: pytest.fail("it asked"))
    assert asked.refused("fetch", {"url": "http://169.254.169.254/"}, "yolo") is not None
    assert asked.refused(*FETCH, "ask") is None


def test_taint_stays(tmp_path: Path) -> None:
    """The first call that brought a stranger's words is remembered, and `auto` asks from then."""
    rules = approver(tmp_path)
    assert rules.answer(*FETCH, "auto").brings
    assert not rules.answer(*SHELL, "auto").brings
    rules.taint("call-3")
    rules.taint("call-9")
    assert rules.tainted_by == "call-3"
    assert rules.answer(*SHELL, "auto").denied is not None
    assert rules.answer("read", {"path": "a"}, "auto").denied is None
    assert rules.answer(*SHELL, "yolo").denied is None


def test_what_may_change_something_is_told(tmp_path: Path) -> None:
    """Reading and delegating change nothing themselves."""
    rules = approver(tmp_path)
    assert not rules.answer("read", {"path": "a"}, "yolo").changes
    assert not rules.answer("task", {"prompt": "p", "scope": []}, "yolo").changes
    assert rules.answer(*WRITE, "yolo").changes


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y", True),
        (" YES ", True),
        ("", False),
        ("no", False),
        ("yes please", False),
        (None, False),
    ],
)
def test_only_a_clear_yes_is_a_yes(typed: str | None, answer: bool) -> None:
    """Anything but yes at the terminal is a no, and so is the end of its input."""
    terminal = FakeTerminal([] if typed is None else [typed])
    ask = ask_at(terminal)
    assert ask is not None
    assert ask("shell", {"command": "a\x1b[2Jb"}, "unseen") is answer
    assert "\x1b" not in terminal.shown
    assert "unseen" in terminal.shown


def test_what_does_not_fit_is_counted() -> None:
    """A person is told how much of a call they do not see."""
    terminal = FakeTerminal(["n"])
    ask = ask_at(terminal)
    assert ask is not None
    ask("write", {"path": "a", "content": "x" * 5_000}, "write")
    assert "more characters)" in terminal.shown


def test_where_nobody_sits_nobody_is_asked() -> None:
    """A pipe is not a person."""
    assert ask_at(FakeTerminal(["y"], tty=False)) is None
