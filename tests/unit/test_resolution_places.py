"""One path of a call: which places must fit, and what else follows from where it leads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import broker.resolution.places
from broker.calls import Access, PathSubject
from broker.errors import InputError
from broker.limits import MAX_PATH_CHARS
from broker.resolution.places import DiskPaths, in_settings
from broker.resolution.realpaths import (
    ANYTHING,
    FOLDERS,
    NOTHING,
    TREES,
    Kinds,
    PathError,
    PathWalk,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a file, a folder and a few links."""
    root = tmp_path / "ws"
    (root / "src").mkdir(parents=True)
    (root / "docs").mkdir()
    (root / "src" / "a.py").write_text("a")
    os.symlink("../docs", root / "src" / "d")
    os.symlink(tmp_path, root / "src" / "up")
    return root


def subject(
    paths: DiskPaths,
    text: str,
    access: Access = "read",
    *,
    last: bool = True,
    below: Kinds = NOTHING,
) -> PathSubject:
    """Read one path from the workspace's root."""
    return paths.begin().subject("path", text, paths.root, access, last=last, below=below)


def test_a_read_must_fit_where_it_leads(root: Path) -> None:
    """Reading through a link counts where the link leads, and only there."""
    found = subject(DiskPaths(str(root)), "src/d/x.md")
    assert found.places == ("docs/x.md/",)
    assert found.resolved == str(root / "docs" / "x.md")
    assert not found.own
    assert not found.folded


def test_a_write_must_fit_both_ways(root: Path) -> None:
    """Writing through a link counts as spelled and where it leads; a plain one once."""
    paths = DiskPaths(str(root))
    assert subject(paths, "src/d/x.md", "write").places == ("src/d/x.md/", "docs/x.md/")
    assert subject(paths, "src/a.py", "write").places == ("src/a.py/",)


def test_steps_up_must_fit_both_ways(root: Path) -> None:
    """A reading tool that tidies the text first would land elsewhere, so both places count."""
    paths = DiskPaths(str(root))
    assert subject(paths, "src/d/../a.py").places == ("src/a.py/", "a.py/")
    assert subject(paths, "src/../src/a.py").places == ("src/a.py/",)
    assert subject(paths, "src/..").places == ("",)
    found = paths.begin().subject("path", "a.py", f"{root}/src/d/..", "read")
    assert found.places == ("src/a.py/", "a.py/")


@pytest.mark.parametrize(
    "text", ["..", "/etc/passwd", "src/up/x", "src/../../x", "../ws-evil/a", "src/up/ws/../x"]
)
def test_outside_is_no_place(root: Path, text: str) -> None:
    """What leads outside fits no pattern, for reading and for writing."""
    paths = DiskPaths(str(root))
    assert subject(paths, text).places == ()
    assert subject(paths, text, "write").places == ()


def test_a_write_that_is_spelled_outside_is_no_place(root: Path, tmp_path: Path) -> None:
    """Coming back in through a link does not make an outside spelling an inside one."""
    os.symlink(root / "src", tmp_path / "in")
    paths = DiskPaths(str(root))
    assert subject(paths, f"{tmp_path}/in/a.py").places == ("src/a.py/",)
    assert subject(paths, f"{tmp_path}/in/a.py", "write").places == ()


def test_another_way_to_the_root_is_inside(root: Path, tmp_path: Path) -> None:
    """The workspace through a link is the workspace, for both spellings of either."""
    os.symlink(root, tmp_path / "way")
    for workspace in (root, tmp_path / "way"):
        paths = DiskPaths(str(workspace))
        assert paths.root == str(root)
        for start in (root, tmp_path / "way"):
            assert subject(paths, f"{start}/src/a.py").places == ("src/a.py/",)
            assert subject(paths, f"{start}/src/a.py", "write").places == ("src/a.py/",)
            assert subject(paths, f"{start}/src/../x", "write").places == ("x/",)
            assert subject(paths, f"{start}/..").places == ()
            assert subject(paths, f"{start}", "write").places == ("",)


def test_a_workspace_that_is_the_disk_s_root_holds_all() -> None:
    """The root of the disk can be a workspace."""
    paths = DiskPaths("/")
    assert subject(paths, "usr").places[0].endswith("/")
    assert subject(paths, "/", "write").places == ("",)
    assert subject(paths, "..").places == ("",)


def test_a_second_name_is_not_written(root: Path, tmp_path: Path) -> None:
    """A file with another name elsewhere may be read and removed, but not written."""
    (tmp_path / "out").write_text("s")
    os.link(tmp_path / "out", root / "src" / "twin")
    paths = DiskPaths(str(root))
    found = subject(paths, "src/twin", "write")
    assert found.places == ()
    assert "second name" in found.why
    assert subject(paths, "src/twin").places == ("src/twin/",)
    assert subject(paths, "src/twin", "write", last=False).places == ("src/twin/",)


def test_writes_inside_git_are_marked(root: Path) -> None:
    """Either spelling of a write that reaches `.git` counts; reading does not."""
    (root / ".git" / "hooks").mkdir(parents=True)
    os.symlink("../.git", root / "src" / "g")
    paths = DiskPaths(str(root))
    assert subject(paths, ".git/hooks/x", "write").inner_git
    assert subject(paths, "src/g/config", "write").inner_git
    assert subject(paths, ".GIT/config", "write").inner_git
    assert not subject(paths, ".git/config").inner_git
    assert not subject(paths, ".gitignore", "write").inner_git


def test_the_broker_s_own_folders_are_marked(root: Path, tmp_path: Path) -> None:
    """Reading and writing there is marked, and so is writing a folder above."""
    keys = tmp_path / "data" / "keys"
    keys.mkdir(parents=True)
    os.symlink(keys, root / "k")
    paths = DiskPaths(str(root), [str(keys)])
    assert subject(paths, str(keys / "key")).own
    assert subject(paths, "k/key").own
    assert subject(paths, "k", "write").own
    assert subject(paths, str(tmp_path / "data"), "write", last=False).own
    assert not subject(paths, str(tmp_path / "data")).own
    assert not subject(paths, "src/a.py", "write").own


def test_a_search_of_a_folder_reads_all_below(root: Path) -> None:
    """A folder and what is not there yet have things below them; a file has not."""
    paths = DiskPaths(str(root))
    os.symlink("a.py", root / "src" / "l")
    os.link(root / "src" / "a.py", root / "src" / "twin")
    for text in (".", "src", "src/", "src/d", "src/d/..", "new", "new/x", "src/up"):
        assert subject(paths, text, below=TREES).below, text
        assert not subject(paths, text).below
    for text in ("src/a.py", "src/l", "./src/../src/a.py", "src/twin"):
        assert not subject(paths, text, below=TREES).below, text
    assert subject(paths, "src/d", below=TREES).places == ("docs/",)


def test_a_search_from_above_reads_the_broker_s_own_folders(root: Path, tmp_path: Path) -> None:
    """Searching a folder that holds one of them is marked; listing it is not."""
    (root / "home" / "keys").mkdir(parents=True)
    paths = DiskPaths(str(root), [str(root / "home" / "keys")])
    for text in (".", "home", "home/keys", str(tmp_path)):
        assert subject(paths, text, below=TREES).own, text
    for text in (".", "home", str(tmp_path)):
        assert not subject(paths, text).own, text
    assert not subject(paths, "src", below=TREES).own


@pytest.mark.parametrize(
    ("below", "deep"),
    [(NOTHING, ""), (FOLDERS, "src"), (TREES, "src none"), (ANYTHING, "src none src/a.py twin")],
)
def test_what_a_write_takes_along(root: Path, below: Kinds, deep: str) -> None:
    """Whether all below counts hangs on what is there: a folder, nothing, or a file."""
    (root / "one").write_text("1")
    os.link(root / "one", root / "twin")
    paths = DiskPaths(str(root))
    for text in ("src", "none", "src/a.py", "twin"):
        found = subject(paths, text, "write", last=False, below=below)
        assert found.below is (text in deep.split()), text
        assert found.places == (f"{text}/",)
    # A link goes itself, and what it leads to stays; spelled as a folder it is one.
    assert not subject(paths, "src/d", "write", last=False, below=TREES).below
    assert subject(paths, "src/d/", "write", last=False, below=TREES).below
    assert subject(paths, "src/d", "write", below=FOLDERS).below


def test_what_lies_outside_may_be_a_folder_too(root: Path, tmp_path: Path) -> None:
    """Where a folder outside is copied from, the copy is a folder as well."""
    (tmp_path / "file").write_text("x")
    paths = DiskPaths(str(root))
    assert subject(paths, str(tmp_path), below=TREES).below
    assert not subject(paths, f"{tmp_path}/file", below=TREES).below


def test_the_whole_workspace_takes_its_settings_along(root: Path) -> None:
    """Who removes or replaces all below the workspace reaches the settings; one file does not."""
    paths = DiskPaths(str(root))
    for text in (".", str(root), "src/.."):
        assert subject(paths, text, "write", last=False, below=TREES).own
        assert subject(paths, text, "write", below=ANYTHING).own
        assert not subject(paths, text, "write", below=FOLDERS).own
        assert not subject(paths, text, "write").own
        assert not subject(paths, text, below=TREES).own
    assert not subject(paths, "src", "write", last=False, below=TREES).own


def several(paths: DiskPaths, *texts: str, access: Access = "read") -> list[PathSubject]:
    """Read some paths of one call."""
    reading = paths.begin()
    return [reading.subject("p", text, paths.root, access) for text in texts]


def test_the_workspace_makes_nothing_beside_it_known(root: Path, tmp_path: Path) -> None:
    """What lies beside the workspace is outside, though a call names the workspace first."""
    texts = ["src", str(root), f"{tmp_path}/a", f"{tmp_path}/b", f"{root}/src"]
    both: tuple[Access, Access] = ("read", "write")
    for access in both:
        found = several(DiskPaths(str(root)), *texts, access=access)
        assert [p.places for p in found] == [("src/",), ("",), (), (), ("src/",)]


def test_a_folder_that_was_read_is_no_safer_to_write(root: Path) -> None:
    """What a call has read before does not hide what a write there comes to."""
    (root / "src" / ".git").mkdir()
    (root / ".broker").mkdir()
    os.link(root / "src" / "a.py", root / "src" / "twin")
    reading = DiskPaths(str(root)).begin()
    for folder in ("src", "src/.git", ".broker", "."):
        for n in range(4):
            place = reading.subject("p", f"{folder}/{n}", str(root), "read").places
            assert place == (f"{folder}/{n}/".removeprefix("./"),)

    def write(text: str) -> PathSubject:
        return reading.subject("p", text, str(root), "write")

    assert write("src/.git/x").inner_git
    assert write(".broker/x").own
    assert write("./.broker").own
    assert write("./.git").inner_git
    assert write("src/twin").places == ()
    assert write("src/d").places == ("src/d/", "docs/")
    assert write("src/new").places == ("src/new/",)


def test_many_folders_and_bases_are_read(root: Path) -> None:
    """What is kept of folders holds for one base, and each path is read from its own."""
    reading = DiskPaths(str(root)).begin()
    for base in (f"{root}/{n}" for n in (1, 2, 1, 3)):
        for text in (f"{n}/{name}" for n in range(3) for name in "abc"):
            found = reading.subject("p", text, base, "read")
            assert found.places == (f"{base[len(str(root)) + 1 :]}/{text}/",)


def test_one_look_is_enough_in_a_folder_that_is_known(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain name among many is looked at and not walked to; in an absent folder neither."""
    paths = DiskPaths(str(root))
    looks: list[object] = []
    walks: list[object] = []
    look, follow = os.lstat, PathWalk.follow

    def walk(self: PathWalk, path: str, *, last: bool = True) -> str:
        walks.append(path)
        return follow(self, path, last=last)

    monkeypatch.setattr(os, "lstat", lambda path: (looks.append(path), look(path))[1])
    monkeypatch.setattr(PathWalk, "follow", walk)
    several(paths, *[f"src/{n}" for n in range(50)])
    assert (len(looks), len(walks)) == (51, 2)
    looks.clear()
    several(paths, *[f"none/{n}" for n in range(50)])
    assert (len(looks), len(walks)) == (1, 4)


def test_the_whole_disk_as_a_workspace(root: Path) -> None:
    """Where every path lies inside, the disk's root is no folder's name, and is a folder."""
    texts = ["x", "/", "/y", "/z", "x", f"{root}/src/a.py", f"{root}/src/b"]
    found = several(DiskPaths("/"), *texts)
    assert [p.resolved for p in found] == ["/x", "/", "/y", "/z", "/x", *texts[5:]]
    assert [p.places[0] for p in found[:5]] == ["x/", "", "y/", "z/", "x/"]
    for views in ("/dev/x /dev/y /dev/fd", "/proc/1/x /proc/1/y /proc/1/cwd"):
        with pytest.raises(PathError, match="reads it"):
            several(DiskPaths("/"), "x", *views.split())


def test_two_wrongs_do_not_make_a_folder_known(root: Path) -> None:
    """A link after a step up may lead to where the text says; its folder is another one still."""
    (root / "src" / "c" / "d").mkdir(parents=True)
    (root / "src" / "docs").mkdir()
    (root / "docs" / "x").write_text("x")
    os.symlink("src/c", root / "l")
    os.symlink("../../docs/x", root / "src" / "docs" / "x")
    found = several(DiskPaths(str(root)), "a", "l/../docs/x", "l/../docs/y")
    assert found[1].resolved == f"{root}/docs/x"
    assert found[2].resolved == f"{root}/src/docs/y"
    assert found[2].places == ("docs/y/", "src/docs/y/")


def test_a_path_among_many_is_not_too_long_either(root: Path) -> None:
    """However long the folder or the name, a path has as many characters as one alone."""
    for folder, name in (
        ("none/", "n" * MAX_PATH_CHARS),
        ("none/" + "n" * (MAX_PATH_CHARS - 14) + "/", "n" * 9),
    ):
        with pytest.raises(PathError, match="characters, more than"):
            several(DiskPaths(str(root)), f"{folder}a", f"{folder}b", folder + name)


def test_many_paths_on_a_disk_that_folds_case(root: Path) -> None:
    """That letter case does not count holds for every path of a call."""
    paths = DiskPaths(str(root))
    paths.folded = True
    (root / ".broker").mkdir()
    found = several(paths, "src/a", "src/b", "src/c", ".Broker/a", ".Broker/b", access="write")
    assert all(p.folded for p in found)
    assert [p.own for p in found] == [False, False, False, True, True]


def test_a_workspace_of_odd_letters_is_written_down(tmp_path: Path) -> None:
    """A folder's name that is no text stays one that can be written down, for every path."""
    root = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.mkdir(root)
    found = several(DiskPaths(root), *[f"a/{n}" for n in range(5)])
    assert [p.places for p in found] == [(f"a/{n}/",) for n in range(5)]
    assert all(p.resolved.encode() for p in found)


def test_the_workspace_s_settings_are_not_written(root: Path) -> None:
    """Tools read the workspace's own broker settings and never write them."""
    paths = DiskPaths(str(root))
    assert subject(paths, ".broker/catalogs/x.toml", "write").own
    assert subject(paths, ".broker", "write").own
    assert not subject(paths, ".broker/catalogs/x.toml").own
    assert not subject(paths, ".brokers/x", "write").own
    assert in_settings(".Broker/x/", True)
    assert not in_settings(".Broker/x/", False)


def test_a_replaced_workspace_is_noticed(root: Path, tmp_path: Path) -> None:
    """When the workspace is no longer the same folder, nothing is read from it."""
    paths = DiskPaths(str(root))
    paths.begin()
    root.rename(tmp_path / "old")
    with pytest.raises(PathError, match="moved or replaced"):
        paths.begin()
    os.symlink(tmp_path / "old", root)
    paths.begin()
    root.unlink()
    root.mkdir()
    with pytest.raises(PathError, match="moved or replaced"):
        paths.begin()


def test_a_redirected_spelling_is_noticed(root: Path, tmp_path: Path) -> None:
    """A link that leads to the workspace is part of it: when it changes, nothing is read."""
    os.symlink(root, tmp_path / "way")
    paths = DiskPaths(str(tmp_path / "way"))
    (tmp_path / "way").unlink()
    os.symlink("/etc", tmp_path / "way")
    with pytest.raises(PathError, match="moved or replaced"):
        paths.begin()


@pytest.mark.parametrize("name", ["missing", "src/a.py", "a\0b"])
def test_a_workspace_is_a_folder(root: Path, name: str) -> None:
    """A workspace that is not there, or no folder, is an error at once."""
    with pytest.raises(InputError, match="workspace"):
        DiskPaths(f"{root}/{name}")


def test_a_disk_that_folds_case_is_marked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a name in other letters is the same name, subjects say so."""
    monkeypatch.setattr(
        broker.resolution.places.os.path, "samefile", lambda a, b: a.lower() == b.lower()
    )
    assert DiskPaths(str(root)).folded
    assert subject(DiskPaths(str(root)), "src/a.py").folded
    assert subject(DiskPaths(str(root)), ".BROKER/x", "write").own


def test_names_that_are_no_text_can_be_written_down(root: Path) -> None:
    """A link to a name that is not UTF-8 gives a subject without half characters."""
    os.symlink(b"\xff\xfe.txt", os.fsencode(root / "src" / "odd"))
    found = subject(DiskPaths(str(root)), "src/odd", "write")
    assert found.places == ("src/odd/", "src/\ufffd\ufffd.txt/")
    found.resolved.encode()


def test_a_folder_to_start_from_is_read_in_order(root: Path) -> None:
    """Relative paths start below the folder as it is spelled, links and all."""
    paths = DiskPaths(str(root))
    base = paths.base("src/d", paths.root)
    assert paths.begin().subject("p", "../a.py", base, "read").places == ("src/a.py/", "a.py/")
    assert paths.base("/etc", paths.root) == "/etc"
    with pytest.raises(PathError):
        paths.base("~", paths.root)
