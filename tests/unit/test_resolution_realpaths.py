"""Paths are followed in the kernel's order, and what cannot be read is an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.limits import MAX_LINK_HOPS, MAX_PATH_CHARS, MAX_PATH_STEPS
from broker.resolution.realpaths import (
    ABSENT,
    FOLDER,
    SHARED,
    PathError,
    PathWalk,
    check_text,
    climbs,
    in_git,
    inside,
    lexical,
    shown,
    under_any,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with folders, files and links."""
    root = tmp_path / "ws"
    (root / "src" / "pkg").mkdir(parents=True)
    (root / "docs" / "img").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "s.txt").write_text("s")
    os.symlink("../docs/img", root / "src" / "d")
    os.symlink(tmp_path / "out", root / "src" / "out")
    os.symlink("a.py", root / "src" / "l")
    os.symlink("l", root / "src" / "ll")
    os.symlink("y", root / "x")
    os.symlink("x", root / "y")
    os.symlink("missing/deeper", root / "gone")
    return root


def follow(root: Path, path: str, *, last: bool = True) -> str:
    """Follow a path below the root and return where it leads, relative to it if inside."""
    found = PathWalk(str(root), str(root)).follow(f"{root}/{path}", last=last)
    place = inside(found, str(root))
    return found if place is None else place.removesuffix("/")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("src/a.py", "src/a.py"),
        ("./src//./a.py", "src/a.py"),
        ("src/pkg/", "src/pkg"),
        ("src/ll", "src/a.py"),
        ("src/d/../x.md", "docs/x.md"),
        ("src/pkg/../a.py", "src/a.py"),
        ("new/sub/../x", "new/x"),
        ("new/../src/l", "src/a.py"),
        ("new/../../ws/src/l", "src/a.py"),
        ("gone", "missing/deeper"),
        ("gone/../../x2", "x2"),
        ("", ""),
    ],
)
def test_links_come_before_steps_up(root: Path, path: str, place: str) -> None:
    """A step up is taken from where a link leads, and a missing tail is read as text."""
    assert follow(root, path) == place


def test_a_way_out_is_seen(root: Path, tmp_path: Path) -> None:
    """A link to the outside leads outside, also for what does not exist there yet."""
    assert follow(root, "src/out/s.txt") == str(tmp_path / "out" / "s.txt")
    assert follow(root, "src/out/n1/n2") == str(tmp_path / "out" / "n1" / "n2")
    assert follow(root, "src/out/../s") == str(tmp_path / "s")


def test_a_last_link_can_stay(root: Path) -> None:
    """Removing takes the link itself, but not when the path goes through it."""
    assert follow(root, "src/out", last=False) == "src/out"
    assert follow(root, "src/l", last=False) == "src/l"
    assert follow(root, "src/d/", last=False) == "docs/img"
    assert follow(root, "src/d/.", last=False) == "docs/img"
    assert follow(root, "src/d/..", last=False) == "docs"
    assert follow(root, "src/d/new", last=False) == "docs/img/new"


@pytest.mark.parametrize("path", ["x", "x/a", "x/../src/a.py", "y"])
def test_a_circle_of_links_is_an_error(root: Path, path: str) -> None:
    """A loop is refused; the text of the path is no way out of it."""
    with pytest.raises(PathError, match="circle"):
        follow(root, path)


def test_the_number_of_links_is_bounded(root: Path) -> None:
    """As many links as the kernel follows are followed, and not one more."""
    os.symlink("src/a.py", root / "c0")
    for n in range(MAX_LINK_HOPS):
        os.symlink(f"c{n}", root / f"c{n + 1}")
    assert follow(root, f"c{MAX_LINK_HOPS - 1}") == "src/a.py"
    with pytest.raises(PathError):
        follow(root, f"c{MAX_LINK_HOPS}")


@pytest.mark.parametrize("path", ["src/a.py/x", "src/a.py/..", "src/a.py/../b", "src/l/x"])
def test_a_file_is_no_folder(root: Path, path: str) -> None:
    """Nothing is read through a file, as the system would not."""
    with pytest.raises(PathError, match="not a folder"):
        follow(root, path)


def test_the_top_of_the_disk_is_its_own_parent(root: Path) -> None:
    """Steps above the disk's root stay there."""
    walk = PathWalk(str(root), str(root))
    assert walk.follow("/../../etc/../") == "/"
    assert walk.follow(f"/..{root}/src/a.py") == f"{root}/src/a.py"


@pytest.mark.parametrize(
    "path",
    [
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd",
        "/proc/self/fd/3",
        "/proc/1/task/1/root",
        "/proc/thread-self/root",
        "/dev/fd/0",
        "/dev/stdin",
        "/dev/./stdout",
    ],
)
def test_a_process_s_own_view_is_refused(root: Path, path: str) -> None:
    """What another process would see in its own folder cannot be told from here."""
    with pytest.raises(PathError):
        PathWalk(str(root), str(root)).follow(path)


def test_a_link_into_a_process_s_view_is_refused(root: Path) -> None:
    """Reaching such a folder through a link changes nothing."""
    os.symlink("/proc/self/root", root / "top")
    with pytest.raises(PathError):
        follow(root, "top/etc/passwd")


def test_a_name_too_long_for_the_disk_is_an_error(root: Path) -> None:
    """What the disk cannot answer is not guessed."""
    with pytest.raises(PathError, match="cannot be read"):
        follow(root, "n" * 300)


def test_the_steps_of_one_call_are_bounded(root: Path) -> None:
    """A call full of endless paths ends."""
    walk = PathWalk(str(root), str(root))
    long = str(root) + "/." * (MAX_PATH_STEPS // 2 + 1)
    walk.follow(long)
    with pytest.raises(PathError, match="too many parts"):
        walk.follow(long)


def test_the_parts_of_links_count(root: Path) -> None:
    """Links with targets of a thousand parts do not make one short path endless."""
    for n in range(MAX_LINK_HOPS):
        (root / f"hop{n}").symlink_to("./" * 1_000 + (f"hop{n - 1}" if n else "src"))
    last = f"{root}/hop{MAX_LINK_HOPS - 1}"
    walk = PathWalk(str(root), str(root))
    times = MAX_PATH_STEPS // (1_000 * MAX_LINK_HOPS)
    for _ in range(times):
        assert walk.follow(last) == f"{root}/src"
    with pytest.raises(PathError, match="too many parts"):
        walk.follow(last)


def test_what_is_not_there_is_read_on_as_text(root: Path) -> None:
    """Below an absent entry parts add up, and a step up is a look at the disk again."""
    walk = PathWalk(str(root), str(root))
    due = {
        "none//a/./b/": "none/a/b",
        "none/a/../b": "none/b",
        "none/../src/a.py": "src/a.py",
        "none/a/../../src/./none/../a.py": "src/a.py",
        "none/../x/a": "/x/a",
    }
    (root / "x").unlink()
    (root / "x").symlink_to("/x")
    for spelled, place in due.items():
        found = walk.follow(f"{root}/{spelled}")
        assert found == (place if place[0] == "/" else f"{root}/{place}")
        assert found == os.path.realpath(f"{root}/{spelled}")
    with pytest.raises(PathError, match="is not a folder"):
        walk.follow(f"{root}/none/../src/a.py/none")


def test_a_name_in_a_known_folder_is_looked_at(root: Path) -> None:
    """One look tells what it is; a link, or more parts than may be read, has to be followed."""
    os.link(root / "src" / "a.py", root / "twin")
    walk = PathWalk(str(root), str(root))
    due = {"src": FOLDER, "new": ABSENT, "twin": None, "x": None, "src/l": None}
    assert {name: walk.enter(f"{root}/{name}", 2, there=True) for name in due} == due
    assert walk.enter(f"{root}/none/new", 2, there=False) == ABSENT
    assert walk.enter(f"{root}/new", MAX_PATH_STEPS - 5, there=True) is None
    assert walk.enter(f"{root}/new", MAX_PATH_STEPS - 6, there=True) == ABSENT
    with pytest.raises(PathError, match="cannot be read"):
        PathWalk(str(root), str(root)).enter(f"{root}/src/a.py/x", 2, there=True)
    with pytest.raises(PathError, match="too many parts"):
        walk.follow(f"{root}/src")


def test_a_folder_that_was_passed_is_there(root: Path) -> None:
    """The workspace is there, and so is a folder that was come through, and nothing else."""
    walk = PathWalk(str(root), str(root))
    walk.follow(f"{root}/src/new")
    walk.follow(f"{root}/none/new")
    assert walk.passed(str(root))
    assert walk.passed(f"{root}/src")
    assert not walk.passed(f"{root}/src/new")
    assert not walk.passed(f"{root}/none")
    assert not walk.passed(f"{root}/other")


def test_a_second_name_is_seen(root: Path) -> None:
    """A file with two names is told from one with one, and from a folder."""
    os.link(root / "src" / "a.py", root / "twin")
    walk = PathWalk(str(root), str(root))
    for path, shared in (("twin", True), ("src", False), ("none", False), ("src/a.py", True)):
        walk.follow(f"{root}/{path}")
        assert (walk.kind == SHARED) is shared


@pytest.mark.parametrize(
    "text",
    [
        "",
        "~",
        "~/x",
        "~root/x",
        "$HOME/x",
        "a\0b",
        "\ud800",
        "a/\udc80",
        "x" * (MAX_PATH_CHARS + 1),
        "file:///etc/passwd",
        "https://a.example/x",
        "x://",
        "src/..\\..\\x",
        "src\\..\\x",
        "src/\uff0e\uff0e/x",
        "src/\u2024\u2024/x",
        "src/..\uff0f..\uff0fx",
    ],
)
def test_what_tools_read_differently_is_refused(text: str) -> None:
    """A spelling that only some readers take for a home, a variable or a climb is an error."""
    with pytest.raises(PathError):
        check_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "x" * MAX_PATH_CHARS,
        "a~",
        "src/$id.tsx",
        "./~/x",
        "a b",
        "tab\there",
        "....//x",
        "..;/x",
        "%2e%2e/x",
        "C:\\x",
        "a:b",
        "a/b://c",
        "\u05e9\u05dc.md",
        "e\u0301.md",
        "src/..\u2215..\u2215x",
        "\U0001f469\u200d\U0001f4bb.md",
    ],
)
def test_odd_names_are_names(text: str) -> None:
    """Honest and odd file names are read as they are."""
    check_text(text)


def test_text_is_tidied_as_text() -> None:
    """The second reading drops dots and takes steps up without a look at the disk."""
    assert lexical("/a/b/../c") == "/a/c"
    assert lexical("//a/./b//") == "/a/b"
    assert lexical("/../..") == "/"
    assert lexical("/.a/..b/") == "/.a/..b"
    assert lexical("/") == "/"


def test_steps_up_are_whole_components() -> None:
    """Two dots inside a name are no step up."""
    assert climbs("..")
    assert climbs("a/..")
    assert not climbs("a..b/...")


def test_a_sibling_is_outside() -> None:
    """A folder that only begins alike is another folder."""
    assert inside("/ws2/x", "/ws") is None
    assert inside("/w", "/ws") is None
    assert inside("/x", "/") == "x/"
    assert inside("/", "/") == ""


def test_git_is_found_in_any_spelling() -> None:
    """Letter case and unseen letters do not hide `.git`."""
    assert in_git(".GIT/hooks/x/")
    assert in_git("sub/.git/")
    assert in_git(".g\u200cit/config/")
    assert not in_git(".gitignore/")
    assert not in_git("a.git/x/")
    assert not in_git("\u00e9/.github/")


def test_folders_above_count_when_asked() -> None:
    """Writing a folder above another one reaches that one too."""
    assert under_any("/h/k", ["/h/k"], above=False)
    assert not under_any("/h", ["/h/k"], above=False)
    assert under_any("/h", ["/h/k"], above=True)
    assert not under_any("/hh", ["/h"], above=True)


def test_messages_stay_on_one_line() -> None:
    """What is shown of a path holds nothing that moves a cursor."""
    assert shown("a\x1b[2J\nb") == "a\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}b"
    assert len(shown("y" * 1000)) < 200
