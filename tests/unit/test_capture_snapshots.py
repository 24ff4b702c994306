"""Snapshots of a run: what the trace says of them, and that nothing of the person's is touched."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.capabilities.clock import SystemClock
from broker.capture import snapshots
from broker.capture.restoring import restore
from broker.capture.snapshots import Snapshots
from tests.worldkit import Recorded, eventually, recorded


class Taken:
    """A run with snapshots of a workspace."""

    def __init__(self, place: Path) -> None:
        self.run: Recorded = recorded(place)
        self.space = place / "space"
        self.space.mkdir()
        self.made = Snapshots(self.run.writer, self.space, [], SystemClock())

    def start(self) -> None:
        """Begin, and wait for the first snapshot."""
        self.made.begin()
        self.made.start()
        self.run.wait(1, "fs.snapshot")

    def turn(self) -> None:
        """Begin a turn, and wait for its snapshot."""
        count = len(self.run.lines("fs.snapshot"))
        self.made.turned(self.run.writer.new_turn())
        self.run.wait(count + 1, "fs.snapshot")


@pytest.fixture
def taken(tmp_path: Path) -> Iterator[Taken]:
    """A run whose snapshots end with the test."""
    found = Taken(tmp_path)
    yield found
    found.made.end()


def test_each_turn_has_the_tree_that_it_began_with(taken: Taken, tmp_path: Path) -> None:
    """A turn's tree is what was there when it began; changes are told with their difference."""
    (taken.space / "f").write_text("one\n", encoding="utf-8")
    taken.start()
    taken.turn()
    (taken.space / "f").write_text("one\ntwo\n", encoding="utf-8")
    (taken.space / "b").write_bytes(b"\0\1")
    taken.turn()
    (taken.space / "b").unlink()
    taken.made.end()
    taken.run.writer.seal(0)
    found = taken.run.lines("fs.snapshot")
    assert [(each["turn"], each["attrs"]["at"]) for each in found] == [
        (0, "start"), (1, "start"), (2, "start"), (2, "end"),
    ]  # fmt: skip
    changed = taken.run.lines("fs.change")
    assert [(each["attrs"]["path"], each["attrs"]["status"]) for each in changed] == [
        ("b", "added"), ("f", "modified"), ("b", "deleted"),
    ]  # fmt: skip
    assert [each["causes"] for each in changed] == [[found[2]["seq"]]] * 2 + [[found[3]["seq"]]]
    assert changed[0]["attrs"]["binary"] is True
    assert (changed[1]["attrs"]["insertions"], changed[1]["attrs"]["deletions"]) == (1, 0)
    assert taken.run.payload(changed[1]).endswith(" one\n+two\n")
    for number, expected in ((0, {"f": b"one\n"}), (2, {"f": b"one\ntwo\n", "b": b"\0\1"})):
        into = tmp_path / f"into-{number}"
        restore(taken.run.folder / "fs", found[number]["attrs"]["tree"], into)
        assert {each.name: each.read_bytes() for each in into.iterdir()} == expected


def test_the_persons_repository_is_untouched(taken: Taken) -> None:
    """Row 60: `git status`, and every file of the real `.git`, are as they were; nothing runs."""
    space, proof = taken.space, taken.space.parent / "it-ran"
    git = ("git", "-C", str(space), "-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run([*git, "init", "-q"], check=True)
    for key in ("filter.x.clean", "filter.x.smudge", "core.fsmonitor", "diff.x.textconv"):
        subprocess.run([*git, "config", key, f"touch {proof}; cat"], check=True)
    (space / ".gitattributes").write_text(
        "*.x filter=x diff=x\n*.crlf text eol=crlf\n", encoding="utf-8"
    )
    (space / "a.x").write_text("x\n", encoding="utf-8")
    (space / "a.crlf").write_bytes(b"1\r\n2\n")
    plain = (*git, "-c", "core.fsmonitor=false")
    subprocess.run([*plain, "add", "a.crlf"], check=True, capture_output=True)
    subprocess.run([*plain, "commit", "-qm", "one"], check=True, capture_output=True)
    proof.unlink(missing_ok=True)
    before = _files(space / ".git"), _status(plain)
    (space / ".git" / "index").touch()
    stamps = _stamps(space / ".git")
    taken.start()
    (space / "new.x").write_text("new\n", encoding="utf-8")
    taken.turn()
    assert _stamps(space / ".git") == stamps
    assert not proof.exists()
    (space / "new.x").unlink()
    assert (_files(space / ".git"), _status(plain)) == before
    tree = taken.run.lines("fs.snapshot")[-1]["attrs"]["tree"]
    restore(taken.run.folder / "fs", tree, space.parent / "into")
    assert (space.parent / "into" / "a.crlf").read_bytes() == b"1\r\n2\n"
    assert not (space.parent / "into" / ".git").exists()


def _files(place: Path) -> dict[str, bytes]:
    return {
        str(each.relative_to(place)): each.read_bytes()
        for each in place.rglob("*")
        if each.is_file() and each.name != "index"
    }


def _stamps(place: Path) -> dict[str, tuple[int, int]]:
    return {
        str(each): (each.stat().st_mtime_ns, each.stat().st_ctime_ns)
        for each in (place, *place.rglob("*"))
    }


def _status(git: tuple[str, ...]) -> bytes:
    return subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True).stdout


def test_what_is_left_out_is_counted(taken: Taken) -> None:
    """A snapshot says how much it left out, and why, and in how many files it hid something."""
    (taken.space / ".gitignore").write_text("out/\n", encoding="utf-8")
    (taken.space / "out").mkdir()
    (taken.space / ".env").write_text("A=b\n", encoding="utf-8")
    (taken.space / "c.yml").write_text("password: hunter2\n", encoding="utf-8")
    taken.start()
    attrs = taken.run.lines("fs.snapshot")[0]["attrs"]
    assert attrs["left_out"] == {"by_name": 1, "ignored": 1}
    assert (attrs["files"], attrs["hidden"]) == (2, 1)


def test_turns_that_come_too_fast_share_a_tree(
    taken: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns that begin while another is looked at are not made up: the next tree says so."""
    monkeypatch.setattr(snapshots, "HOLD_S", 0.0)
    taken.start()
    for _ in range(50):
        taken.made.turned(taken.run.writer.new_turn())
    taken.made.end()
    found = taken.run.lines("fs.snapshot")
    last = [each for each in found if each["turn"] == 50]
    assert last[-1]["attrs"]["at"] == "end"
    skipped = sum(each["attrs"].get("turns_before_without_one", 0) for each in found)
    assert skipped + len(found) == 52  # fifty turns, the beginning and the end


def test_a_turn_does_not_wait_for_a_slow_one(taken: Taken, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes the trace waits a moment at most, however long a snapshot takes."""
    monkeypatch.setattr(snapshots, "HOLD_S", 0.05)
    taken.start()
    process = taken.made._process
    assert process is not None
    os.kill(process.pid, 19)  # SIGSTOP: it takes for ever
    began = time.monotonic()
    taken.made.turned(1)
    assert time.monotonic() - began < 5
    os.kill(process.pid, 18)


def test_a_process_that_dies_ends_the_snapshots_only(taken: Taken) -> None:
    """When the process is killed, one event says so, and the run goes on."""
    taken.start()
    assert taken.made._process is not None
    taken.made._process.kill()
    taken.made.turned(taken.run.writer.new_turn())
    eventually(lambda: bool(taken.made.off))
    (found,) = taken.run.lines("error")
    assert found["attrs"]["kind"] == "snapshots"
    taken.made.turned(taken.run.writer.new_turn())
    taken.made.end()
    assert taken.run.writer.event("note", "orca", attrs={"kind": "x"}) > 0


def test_without_git_there_are_none(taken: Taken, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without git the reason is told, and nothing else changes."""
    monkeypatch.setenv("PATH", "/nowhere")
    taken.made.begin()
    taken.made.start()
    taken.made.turned(1)
    assert "no `git`" in taken.made.off
    assert taken.run.lines() == []


def test_nothing_is_left_behind(taken: Taken) -> None:
    """After the end no process of ours is left, and everything lies in the run's folder."""
    taken.start()
    process = taken.made._process
    assert process is not None
    taken.made.end()
    assert process.poll() == 0
    assert os.listdir(taken.space) == []
