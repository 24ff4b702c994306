"""What a call touched, told from its arguments or from its receipt."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.catalogs import load_catalogs
from broker.replay.reading import CallReader, Elsewhere
from broker.replay.seen import SeenCall

CATALOGS = load_catalogs()


def _reader(where: Path | None = None, **more: object) -> CallReader:
    return CallReader("/gone/ws", CATALOGS, ("/gone/own",), where and str(where), **more)  # type: ignore[arg-type]  # a test's keywords


def _seen(tool: str = "Edit", *subjects: dict[str, object], **more: object) -> SeenCall:
    return SeenCall(3, 0, tool, subjects=subjects, **more)  # type: ignore[arg-type]  # as above


def test_a_snapshot_stands_where_the_workspace_stood(tmp_path: Path) -> None:
    """Paths below the old workspace, and links that name it, lead into the restored one."""
    (tmp_path / "src").mkdir()
    os.symlink("/gone/ws/src", tmp_path / "link")
    reader = _reader(tmp_path, how="snapshot")
    read = reader.read(_seen(arguments={"file_path": "/gone/ws/link/a.py"}))
    assert read.how == "snapshot"
    assert read.call.paths[0].places == ("link/a.py/", "src/a.py/")
    outside = reader.read(_seen(arguments={"file_path": "/elsewhere/a.py"}))
    assert outside.call.paths[0].places == ()


def test_what_the_receipt_saw_counts_besides(tmp_path: Path) -> None:
    """A place that only the receipt tells of is held against the ticket too."""
    seen = _seen(
        "Edit",
        {"path": "real/a.py", "access": "write"},
        arguments={"file_path": "/gone/ws/link/a.py"},
    )
    read = _reader(tmp_path).read(seen)
    assert read.how == "text"
    assert [path.places for path in read.call.paths] == [("link/a.py/",), ("real/a.py/",)]


def test_a_receipt_alone_tells_what_was_touched() -> None:
    """Places, folders with all below them, hosts and commands come back from a receipt."""
    read = _reader().read(
        _seen(
            "Bash",
            {"path": "src/a.py", "access": "read"},
            {"path": ".", "access": "read", "below": True},
            {"path": "/etc/passwd", "access": "read", "outside": True},
            {"path": ".git/config", "access": "write"},
            {"url": "https://example.org:8443"},
            {"command": "ls"},
        )
    )
    call = read.call
    assert (read.how, read.unknown, call.opaque, call.command) == ("receipt", "", True, "ls")
    assert [p.places for p in call.paths] == [("src/a.py/",), ("",), (), (".git/config/",)]
    assert [p.below for p in call.paths] == [False, True, False, False]
    assert call.paths[3].inner_git
    assert call.urls[0].keys == ("example.org:8443",)


def test_the_brokers_own_files_are_known_again() -> None:
    """A path in the broker's folders, or in the workspace's settings, is closed as it was then."""
    own = {"path": "/gone/own/keys", "access": "read", "outside": True}
    settings = {"path": ".broker/x", "access": "write"}
    assert [p.own for p in _reader().read(_seen("Edit", own, settings)).call.paths] == [True, True]


@pytest.mark.parametrize(
    "seen",
    [
        _seen("Edit", {"more": 3}),
        _seen("Edit", {"path": "a/[hidden]/b", "access": "write"}),
        _seen("Edit", {"path": "a" * 1024 + "…", "access": "write"}),
        _seen("Edit", {"url": "not an address"}),
        _seen("batch", cost=3),
    ],
)
def test_what_is_not_told_is_said(seen: SeenCall) -> None:
    """Subjects that were cut off, hidden or left out are not guessed."""
    assert _reader().read(seen).unknown


def test_an_unreadable_call_stays_so() -> None:
    """A call that was refused because it could not be read is refused again."""
    read = _reader().read(_seen("Edit", caveat="call", reason="the path is empty"))
    assert read.call.fault is not None


def test_tools_are_known_by_their_whole_names() -> None:
    """A server's tool has the name that a scope spells."""
    assert _reader().read(_seen("get_issue", server="github")).name == "mcp__github__get_issue"


def test_what_lies_at_the_old_place_plays_no_part(tmp_path: Path) -> None:
    """A reading elsewhere begins though the old workspace is not there."""
    reading = Elsewhere("/gone/ws", str(tmp_path)).begin()
    assert reading.subject("a", "/gone/ws/x", str(tmp_path), "read").places == ("x/",)
