"""What is found in a workspace: every kind of entry, and what is new since the last look."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.capture import gathering
from broker.capture.gathering import Gatherer, WorkspaceLook, open_beneath
from broker.capture.treestore import object_name
from tests.worldkit import SECRETS


class Gathered:
    """A workspace, its gatherer, and what was kept."""

    def __init__(
        self, root: Path, ignored: Sequence[bytes] = (), closed: Sequence[Path] = ()
    ) -> None:
        self.root = root
        self.root.mkdir(exist_ok=True)
        self.ignored = set(ignored)
        self.kept: dict[str, bytes] = {}
        self.tree: dict[bytes, tuple[str, str]] = {}
        self.asked_again = 0
        self.gatherer = Gatherer(
            os.fsencode(root),
            closed=[os.fsencode(place) for place in closed],
            ignored=lambda paths: self.ignored & set(paths),
            again=self._again,
            keep=self._keep,
        )

    def _again(self) -> None:
        self.asked_again += 1

    def _keep(self, content: bytes) -> str:
        oid = object_name(content)
        self.kept[oid] = content
        return oid

    def look(self) -> WorkspaceLook:
        """WorkspaceLook, and apply what differs to the tree, as a store does."""
        found = self.gatherer.look()
        for each in found.entries:
            if each.oid:
                self.tree[each.path] = each.mode, each.oid
            else:
                del self.tree[each.path]
        return found

    def contents(self) -> dict[bytes, bytes]:
        """Return what the tree holds by path."""
        return {path: self.kept[oid] for path, (_, oid) in self.tree.items()}


@pytest.fixture
def space(tmp_path: Path) -> Gathered:
    """An empty workspace."""
    return Gathered(tmp_path / "space")


def test_files_links_and_modes_are_kept(space: Gathered) -> None:
    """A file, a program, a link to a file, to a folder and to nothing are each what they are."""
    (space.root / "a").mkdir()
    (space.root / "a" / "f.txt").write_bytes(b"one\n")
    (space.root / "run").write_bytes(b"#!/bin/sh\n")
    (space.root / "run").chmod(0o755)
    (space.root / "l").symlink_to("a/f.txt")
    (space.root / "d").symlink_to("a")
    (space.root / "n").symlink_to("/nowhere")
    found = space.look()
    assert found.files == 5
    assert {path: mode for path, (mode, _) in space.tree.items()} == {
        b"a/f.txt": "100644", b"run": "100755", b"l": "120000", b"d": "120000", b"n": "120000",
    }  # fmt: skip
    assert space.contents()[b"d"] == b"a"


def test_nothing_new_is_nothing(space: Gathered) -> None:
    """A second look at what has not changed finds no difference, and reads no file."""
    (space.root / "f").write_bytes(b"1")
    os.utime(space.root / "f", ns=(1, 1))
    space.look()
    _settle()
    assert space.look().entries == []
    assert space.look().files == 1


def test_a_change_of_the_same_size_and_time_is_seen(space: Gathered) -> None:
    """A file that is rewritten with as many bytes, and given its old time back, is read again."""
    place = space.root / "f"
    place.write_bytes(b"one")
    os.utime(place, ns=(5, 5))
    space.look()
    place.write_bytes(b"two")
    os.utime(place, ns=(5, 5))
    assert len(space.look().entries) == 1
    assert space.contents() == {b"f": b"two"}


def test_what_goes_is_gone(space: Gathered) -> None:
    """A file that is removed leaves the tree; so does one that becomes a folder."""
    (space.root / "f").write_bytes(b"1")
    (space.root / "g").write_bytes(b"2")
    space.look()
    (space.root / "f").unlink()
    (space.root / "g").unlink()
    (space.root / "g").mkdir()
    (space.root / "g" / "h").write_bytes(b"3")
    space.look()
    assert space.contents() == {b"g/h": b"3"}


def test_strange_names_are_names(space: Gathered) -> None:
    """Names with line breaks, quotes, blanks and bytes that are no UTF-8 are kept."""
    names = [b"a\nb", b'"q"', b" x ", b"\xff\xfe", b":(top)", b"back\\slash", "ü".encode()]
    for name in names:
        with open(os.path.join(os.fsencode(space.root), name), "wb") as file:
            file.write(name)
    space.look()
    assert space.contents() == {name: name for name in names}


def test_no_git_folder_is_looked_into(space: Gathered) -> None:
    """The contents of a nested repository are kept, and nothing of any `.git`, however spelled."""
    for name in (".git", "nested/.git", "nested/deep/.GIT"):
        (space.root / name).mkdir(parents=True)
        (space.root / name / "config").write_bytes(b"[core]")
    (space.root / "nested" / "f").write_bytes(b"1")
    (space.root / "worktree").mkdir()
    (space.root / "worktree" / ".git").write_bytes(b"gitdir: /x")
    space.look()
    assert space.contents() == {b"nested/f": b"1"}


def test_what_is_no_file_is_not_opened(space: Gathered) -> None:
    """A pipe, a socket and a link to a device are passed by, and nobody waits for them."""
    os.mkfifo(space.root / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        before = Path.cwd()
        os.chdir(space.root)
        try:
            made.bind("socket")
        finally:
            os.chdir(before)
        (space.root / "zero").symlink_to("/dev/zero")
        found = space.look()
    assert found.left_out == {"no_file": 2}
    assert space.contents() == {b"zero": b"/dev/zero"}


def test_secrets_by_name_are_left_out(space: Gathered) -> None:
    """Files whose names say that they hold secrets are counted and not kept."""
    for name in (".env", "id_rsa", "server.pem", "credentials.json", ".netrc"):
        (space.root / name).write_bytes(b"x")
    (space.root / ".env.example").write_bytes(b"PORT=1\n")
    found = space.look()
    assert found.left_out == {"by_name": 5}
    assert set(space.contents()) == {b".env.example"}


@pytest.mark.parametrize("kind", SECRETS)
def test_secrets_in_files_are_hidden(tmp_path: Path, kind: str) -> None:
    """A secret of each form is in no content that is kept, whatever kind of file it stood in."""
    secret = SECRETS[kind]
    space = Gathered(tmp_path / "space")
    (space.root / "code.py").write_text(f"client = Client('{secret}')\n", encoding="utf-8")
    (space.root / "conf.yml").write_text(f"a: [{secret}]\npassword: hunter2\n", encoding="utf-8")
    (space.root / "data.bin").write_bytes(b"\0\xff " + secret.encode() + b" \0")
    (space.root / f"{secret}.txt").write_bytes(b"x")
    (space.root / "link").symlink_to(f"/x/{secret}")
    found = space.look()
    assert found.hidden == 2
    assert found.left_out == {"by_content": 1, "by_path": 2}
    assert all(secret.encode() not in content for content in space.kept.values())
    assert b"hunter2" not in b"".join(space.kept.values())
    assert b"client = Client('[hidden" in space.contents()[b"code.py"]


def test_what_is_ignored_is_counted(tmp_path: Path) -> None:
    """What is ignored is left out with all below it, counted, and not visited."""
    space = Gathered(tmp_path / "space", ignored=[b"build", b"a.log"])
    (space.root / "build").mkdir()
    (space.root / "build" / "out").write_bytes(b"1")
    (space.root / "a.log").write_bytes(b"1")
    (space.root / "f").write_bytes(b"1")
    assert space.look().left_out == {"ignored": 2}
    assert set(space.contents()) == {b"f"}


def test_a_changed_list_of_what_is_ignored_counts_at_once(space: Gathered) -> None:
    """When a `.gitignore` comes or goes, what it says is asked anew, for known files too."""
    (space.root / "sub").mkdir()
    (space.root / "sub" / "a.log").write_bytes(b"1")
    (space.root / "b.log").write_bytes(b"1")
    space.look()
    before = space.asked_again
    (space.root / ".gitignore").write_bytes(b"*.log\n")
    space.ignored = {b"sub/a.log", b"b.log"}
    space.look()
    assert (set(space.contents()), space.asked_again) == ({b".gitignore"}, before + 1)
    (space.root / ".gitignore").unlink()
    space.ignored = set()
    space.look()
    assert set(space.contents()) == {b"sub/a.log", b"b.log"}


def test_the_brokers_own_folders_are_not_looked_into(tmp_path: Path) -> None:
    """A folder that is closed is left out where it lies in the workspace."""
    space = Gathered(tmp_path / "space", closed=[tmp_path / "space" / "state"])
    (space.root / "state" / "runs").mkdir(parents=True)
    (space.root / "state" / "runs" / "f").write_bytes(b"1")
    (space.root / "states").write_bytes(b"1")
    space.look()
    assert set(space.contents()) == {b"states"}


def test_what_is_too_large_is_left_out(space: Gathered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, and a tree, have a limit, and what is beyond is counted."""
    monkeypatch.setattr(gathering, "MAX_FILE_BYTES", 100)
    monkeypatch.setattr(gathering, "MAX_TREE_BYTES", 150)
    (space.root / "large").write_bytes(b"x" * 101)
    for name in ("a", "b"):
        (space.root / name).write_bytes(b"x" * 100)
    found = space.look()
    assert (found.files, found.left_out) == (1, {"too_large": 1, "too_much": 1})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_what_cannot_be_read_is_left_out(space: Gathered) -> None:
    """A file and a folder without rights are counted, and the rest is kept."""
    (space.root / "f").write_bytes(b"1")
    (space.root / "f").chmod(0)
    (space.root / "d").mkdir(mode=0)
    (space.root / "g").write_bytes(b"1")
    assert space.look().left_out == {"unreadable": 2}
    (space.root / "d").chmod(0o700)


def test_a_link_on_the_way_is_not_followed(tmp_path: Path) -> None:
    """A folder that becomes a link between listing and reading leads nowhere."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(b"theirs")
    (tmp_path / "space").mkdir()
    (tmp_path / "space" / "a").symlink_to(outside)
    with pytest.raises(NotADirectoryError):
        open_beneath(os.fsencode(tmp_path / "space"), b"a/f")
    (tmp_path / "space" / "l").symlink_to(outside / "f")
    with pytest.raises(OSError, match="symbolic"):
        open_beneath(os.fsencode(tmp_path / "space"), b"l")


def test_a_file_that_is_written_meanwhile_is_whole_or_said_to_be_torn(space: Gathered) -> None:
    """While a file is rewritten again and again, one writing of it is kept, or it is `torn`."""
    place = space.root / "f"
    place.write_bytes(b"0" * 300_000)
    over = threading.Event()

    def write() -> None:
        at = 0
        while not over.is_set():
            at += 1
            place.write_bytes(str(at % 10).encode() * 300_000)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(30):
            found = space.look()
            content = space.contents().get(b"f", b"")
            assert found.torn or len(set(content)) <= 1
    finally:
        over.set()
        writer.join()
    _settle()
    assert space.look().torn == 0


NAMES = st.sampled_from(["a", "b", "c", "d/a", "d/b", "d/e/a"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "link", "remove", "program"]), NAMES, st.integers(0, 3)),
    max_size=12,
)


@settings(max_examples=30)
@given(rounds=st.lists(STEPS, min_size=1, max_size=4))
def test_looks_add_up_to_what_is_there(
    rounds: list[list[tuple[str, str, int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However a workspace changes, the differences add up to what a fresh look finds."""
    space = Gathered(tmp_path_factory.mktemp("w") / "space")
    for steps in rounds:
        for step, name, number in steps:
            _do(space.root / name, step, number)
        space.look()
        fresh = Gathered(space.root)
        fresh.look()
        assert space.tree == fresh.tree


def _do(place: Path, step: str, number: int) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink() or place.is_file():
        place.unlink()
    if step == "link":
        place.symlink_to(str(number))
    elif step in ("write", "program"):
        place.write_bytes(str(number).encode())
        place.chmod(0o755 if step == "program" else 0o644)


def _settle() -> None:
    """Wait until a change that comes now has another time than what was done before."""
    subprocess.run(["sleep", "0.05"], check=True)


def test_the_kit_keeps_by_content(tmp_path: Path) -> None:
    """Two files of one content are one object."""
    space = Gathered(tmp_path / "space")
    for name in ("a", "b"):
        (space.root / name).write_bytes(b"same")
    space.look()
    assert len(space.kept) == 1


def test_folders_with_nothing_in_them_are_named(space: Gathered) -> None:
    """No tree has them: they are told apart, also where nothing else has changed."""
    (space.root / "a/deep").mkdir(parents=True)
    (space.root / "b").mkdir()
    (space.root / "b/x.txt").write_text("x")
    (space.root / "c/.git").mkdir(parents=True)
    assert space.look().empty == [b"a/deep"]
    (space.root / "d").mkdir()
    found = space.look()
    assert (found.entries, found.empty) == ([], [b"a/deep", b"d"])
