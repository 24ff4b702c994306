"""A policy is found as a person names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli.policies import find, folders, home
from broker.errors import PolicyError


def test_names_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With or without the `@`, and a file with or without its `./`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "team.scope").write_text("# Ours.\ncalls = 1\n")
    assert find("review", ()) == find("@review", ())
    assert find("team.scope", ()).texts == find("./team.scope", ()).texts == ("calls=1",)
    with pytest.raises(PolicyError):
        find("team", ())


def test_the_persons_own_come_from_their_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of policies is the configuration's own."""
    monkeypatch.setenv("BROKER_HOME", str(tmp_path))
    assert folders() == (home().config / "policies",)
