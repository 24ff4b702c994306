"""What a person typed is read the way they meant it, or said to be wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.typed import arguments, existing_folder, file_bytes, folder
from broker.errors import InputError

names = st.text(st.characters(exclude_characters="=:"), min_size=1)


@given(st.dictionaries(names, st.text()))
def test_texts_are_kept_as_typed(args: dict[str, str]) -> None:
    """ARG=TEXT gives the text, whatever is in it, further equals signs too."""
    assert arguments([f"{name}={text}" for name, text in args.items()]) == args


def test_json_values() -> None:
    """ARG:=JSON gives any JSON value, and a colon elsewhere is part of the name."""
    assert arguments(["a:=[1,null]", "b:c=x", "d=:=", 'e:="\\ud800"']) == {
        "a": [1, None],
        "b:c": "x",
        "d": ":=",
        "e": "\ud800",
    }


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (["path"], "`path` is not an argument"),
        (["=x"], "`=x` is not an argument"),
        ([":=1"], "`:=1` is not an argument"),
        (["x" * 200], r"`x{57}\.\.\.` is not"),
        (["a=1", "a:=2"], "the argument `a` is given twice"),
        (["a:={"], "the argument `a`: not JSON"),
    ],
)
def test_wrong_arguments(pairs: list[str], said: str) -> None:
    """A word that is no argument is an error that names it."""
    with pytest.raises(InputError, match=said):
        arguments(pairs)


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workspace is absolute, relative to the current folder, or a Windows spelling."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ws").mkdir()
    assert folder(None) == str(tmp_path)
    assert folder("ws/../x") == str(tmp_path / "x")
    assert folder("/a//b/.") == "/a/b"
    assert folder("C:\\ws") == "C:\\ws"
    assert existing_folder("ws") == str(tmp_path / "ws")
    with pytest.raises(InputError, match="no such folder"):
        existing_folder("x")


def test_a_vanished_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standing in a folder that was removed is said, not crashed on."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(InputError, match="does not exist any more"):
        folder(None)


def test_files(tmp_path: Path) -> None:
    """A file is read whole; one that is missing, a folder, odd or huge is an error."""
    (tmp_path / "t").write_bytes(b"\xff\n")
    assert file_bytes(str(tmp_path / "t"), "the ticket") == b"\xff\n"
    for name in (str(tmp_path / "no"), str(tmp_path), "a\0b", "\ud800"):
        with pytest.raises(InputError, match="cannot read the ticket"):
            file_bytes(name, "the ticket")
    os.truncate(tmp_path / "t", 2**25)
    with pytest.raises(InputError, match="too large"):
        file_bytes(str(tmp_path / "t"), "the ticket")
