"""What is ignored is what git ignores, asked without a setting of the person's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.capture.ignoring import Ignoring
from broker.capture.treestore import environ, git_program

GIT = git_program() or ""


class Asked:
    """A workspace, and one who asks git about it."""

    def __init__(self, place: Path) -> None:
        self.root = place / "space"
        self.root.mkdir()
        store = place / "fs"
        subprocess.run([GIT, "init", "-q", "--bare", store], check=True, env=environ(str(place)))
        self.ignoring = Ignoring(GIT, store, os.fsencode(self.root))

    def write(self, name: str, text: str) -> None:
        """Write a file of the workspace."""
        place = self.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def __call__(self, *names: str) -> set[str]:
        return {os.fsdecode(n) for n in self.ignoring.ignored([os.fsencode(n) for n in names])}


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    """A workspace that is empty."""
    found = Asked(tmp_path)
    yield found
    found.ignoring.close()


def test_lists_at_every_depth_count(asked: Asked) -> None:
    """A list counts for what lies below it, in a nested repository too, and `!` takes back."""
    asked.write(".gitignore", "*.log\nbuild/\n!keep.log\n")
    asked.write("nested/.gitignore", "out\n")
    asked.write("nested/.git/HEAD", "x")
    asked.write("nested/out/f", "")
    asked.write("build/f", "")
    assert asked("a.log", "keep.log", "build", "src", "nested/out", "nested/a.log", "nested/f") == {
        "a.log", "build", "nested/out", "nested/a.log",
    }  # fmt: skip


def test_strange_names_are_asked_about(asked: Asked) -> None:
    """Names that git would read as something else are names."""
    asked.write(".gitignore", "*.log\n")
    names = [":(top)x.log", "*.log", "a\nb.log", "-x.log", " .log"]
    assert asked(*names, ":!y", "-z") == set(names)


def test_many_names_are_answered(asked: Asked) -> None:
    """Thousands of names are asked about in parts, and each gets its own answer."""
    asked.write(".gitignore", "*7\n")
    names = [f"{'d' * 200}/{n}" for n in range(2_000)]
    assert asked(*names) == {name for name in names if name.endswith("7")}


def test_a_changed_list_is_read_again(asked: Asked) -> None:
    """After ``again`` a list is read as it is now."""
    asked.write(".gitignore", "a\n")
    assert asked("a", "b") == {"a"}
    asked.write(".gitignore", "b\n")
    asked.ignoring.again()
    assert asked("a", "b") == {"b"}


def test_what_cannot_be_asked_is_not_ignored(asked: Asked) -> None:
    """A question that git dies of costs its part of the answers, and after a few nobody asks."""
    asked.write(".gitignore", "x\n")
    (asked.root / "l").symlink_to("/")
    assert asked("l/etc", "x") == set()
    assert asked("x") == {"x"}
    for _ in range(3):
        asked("l/etc")
    assert not asked.ignoring.able
    assert asked("x") == set()


def test_no_list_of_the_persons_counts(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that the person keeps for all repositories is none of this run's."""
    home = asked.root.parent / "home"
    (home / "git").mkdir(parents=True)
    (home / "git" / "ignore").write_text("*.py\n", encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    assert asked("a.py") == set()
