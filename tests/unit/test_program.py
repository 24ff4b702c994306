"""How the file that a command starts is found, and the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.errors import LaunchError
from broker.program import program_of, start_in


@pytest.mark.parametrize(
    ("name", "helps"),
    [("folder", "it is a folder"), ("file", "chmod"), ("absent", "check its name")],
)
def test_what_is_no_program_is_explained(tmp_path: Path, name: str, helps: str) -> None:
    """The reason says how to mend it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(LaunchError, match=helps):
        program_of([str(tmp_path / name)], {"PATH": "/usr/bin:/bin"})
    with pytest.raises(LaunchError, match="give it after"):
        program_of([], {})


def test_a_program_is_found_by_the_path_that_it_is_started_with(tmp_path: Path) -> None:
    """It is the environment's path that counts, and the answer is a whole one."""
    made = tmp_path / "tool"
    made.write_text("#!/bin/sh\n")
    made.chmod(0o755)
    assert program_of(["tool"], {"PATH": str(tmp_path)}) == str(made)


def test_an_agent_starts_where_the_person_stands_if_that_lies_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else in the workspace."""
    (tmp_path / "ws/sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "ws/sub")
    assert start_in(tmp_path / "ws") == tmp_path / "ws/sub"
    monkeypatch.chdir(tmp_path)
    assert start_in(tmp_path / "ws") == tmp_path / "ws"
