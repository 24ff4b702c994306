"""Windows paths are read from their text, and every alias is refused."""

from __future__ import annotations

import pytest

from broker.errors import InputError
from broker.limits import MAX_PATH_CHARS
from broker.resolution.realpaths import ANYTHING, FOLDERS, TREES, Kinds, PathError
from broker.resolution.winpaths import WindowsPaths, is_windows

WS = WindowsPaths("C:\\ws")


def test_a_search_reads_all_below() -> None:
    """What is a file cannot be told from text, so everything searched may have things below."""
    paths = WindowsPaths("C:\\ws", ["C:\\ws\\broker\\keys"])
    found = paths.subject("path", "src", paths.root, "read", below=TREES)
    assert (found.places, found.below, found.own) == (("src/",), True, False)
    assert paths.subject("path", "broker", paths.root, "read", below=TREES).own
    assert not paths.subject("path", "broker", paths.root, "read").own
    assert not WS.subject("path", "src", WS.root, "read").below
    assert WS.subject("path", "D:\\x", WS.root, "read", below=TREES).below


@pytest.mark.parametrize("below", [FOLDERS, TREES, ANYTHING])
def test_what_is_moved_may_be_a_folder(below: Kinds) -> None:
    """No text says that a path is a file, so all below it counts; the settings may lie there."""
    found = WS.subject("path", "src", WS.root, "write", below=below)
    assert (found.below, found.own) == (True, False)
    assert WS.subject("path", ".", WS.root, "write", below=below).own is (below != FOLDERS)
    assert not WS.subject("path", ".", WS.root, "write").own


def places(text: str, base: str = WS.root) -> tuple[str, ...]:
    """Read one path that is to be read."""
    return WS.begin().subject("path", text, base, "read").places


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("src\\a.py", "src/a.py/"),
        ("src/pkg\\b.py", "src/pkg/b.py/"),
        ("C:\\ws\\src\\a.py", "src/a.py/"),
        ("C:/ws/src/a.py", "src/a.py/"),
        ("c:\\WS\\Src\\A.py", "Src/A.py/"),
        ("C:\\ws", ""),
        (".", ""),
        ("\\ws\\src", "src/"),
        ("src\\..\\secret.txt", "secret.txt/"),
        ("..\\ws\\src", "src/"),
        ("C:\\..\\..\\ws\\x", "x/"),
        ("src. \\a.py...", "src/a.py/"),
        ("src\\..\u00a5x", "src/..\u00a5x/"),
        ("console.txt", "console.txt/"),
        ("mydocument~1.txt", "mydocument~1.txt/"),
        ("a~b.txt", "a~b.txt/"),
        (".hidden", ".hidden/"),
    ],
)
def test_inside(text: str, place: str) -> None:
    """Both separators, drives and steps up are read as Windows reads them."""
    assert places(text) == (place,)


@pytest.mark.parametrize(
    "text",
    [
        "..",
        "C:\\ws-evil\\a",
        "C:\\w",
        "D:\\ws\\src",
        "\\\\server\\share\\ws",
        "//server/share",
        "\\\\localhost\\C$\\ws",
        "/c/ws/src/a.py",
        "C:\\",
        "src\\..\\..\\x",
    ],
)
def test_outside(text: str) -> None:
    """Another drive, another machine and a sibling are outside."""
    assert places(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "~\\x",
        "$env:HOME\\x",
        "%USERPROFILE%\\x",
        "C:src\\a.py",
        "C:",
        "\\\\?\\C:\\ws\\a",
        "\\\\.\\C:\\ws\\a",
        "\\??\\C:\\ws\\a",
        "\\\\?\\GLOBALROOT\\Device\\x",
        "src::$INDEX_ALLOCATION\\a.py",
        "src\\\uff0e\uff0e\\x",
        "src/..\uff3cx",
        "a.txt:stream",
        "file:///C:/ws/a",
        "SECRET~1.TXT",
        "SRC~1\\a.py",
        "a~1",
        "src\\CON",
        "src\\nul.txt",
        "COM1",
        "com\u00b9",
        "lpt9.log",
        "aux .txt",
        "CONIN$",
        "a?.py",
        "a*",
        'a"b',
        "a|b",
        "a\0b",
        "a\nb",
        "...",
        "src\\. .\\x",
        "\ud800",
        "x" * (MAX_PATH_CHARS + 1),
    ],
)
def test_refused(text: str) -> None:
    """Devices, streams, short names and shell words are errors and never guesses."""
    with pytest.raises(PathError):
        places(text)


def test_a_folder_to_start_from() -> None:
    """Relative paths start from a folder that is itself read as text, on any drive."""
    assert places("a.py", WS.base("src\\pkg\\..", WS.root)) == ("src/a.py/",)
    assert places("a.py", WS.base("D:\\x", WS.root)) == ()
    assert places("\\ws\\a", WS.base("D:\\x", WS.root)) == ()
    assert places("..\\a.py", WS.base("\\\\srv\\share\\x", WS.root)) == ()
    with pytest.raises(PathError):
        WS.base("C:x", WS.root)


def test_writes_are_marked() -> None:
    """Inner `.git`, the broker's folders and the workspace's settings are marked."""
    ws = WindowsPaths("C:\\ws", ["C:\\Users\\me\\broker\\keys"])

    def write(text: str) -> tuple[bool, bool]:
        found = ws.subject("path", text, ws.root, "write")
        return found.inner_git, found.own

    assert write(".GIT\\hooks\\x") == (True, False)
    assert write(".git. \\config") == (True, False)
    assert write("c:\\users\\ME\\broker\\KEYS\\k") == (False, True)
    assert write("C:\\Users\\me") == (False, True)
    assert write(".Broker\\x") == (False, True)
    assert write("src\\a.py") == (False, False)
    assert ws.subject("path", "src\\a.py", ws.root, "read").folded


@pytest.mark.parametrize("text", ["C:x", "src", "C:\\a\\..\\CON"])
def test_a_workspace_is_spelled_plainly(text: str) -> None:
    """A workspace that has no plain absolute spelling is an error."""
    with pytest.raises(InputError, match="workspace"):
        WindowsPaths(text)


def test_a_drive_tells_the_systems_apart() -> None:
    """Only a drive with a slash makes a Windows workspace."""
    assert is_windows("c:/x")
    assert not is_windows("c:x")
    assert not is_windows("/c:/x")
    assert not is_windows("\\\\server\\share")
