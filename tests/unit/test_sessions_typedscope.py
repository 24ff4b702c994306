"""How a person's scope is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.catalogs import load_catalogs
from broker.errors import PolicyError, ScopeError
from broker.home import Home
from broker.scope import render
from broker.sessions.typedscope import typed_scope


def test_a_person_s_own_policy_is_read(tmp_path: Path) -> None:
    """A name is looked for among their own files, and what it says stands beside what they type."""
    home = Home.find({"BROKER_HOME": str(tmp_path)})
    folder = home.config / "policies"
    folder.mkdir(parents=True)
    (folder / "mine.scope").write_text("# mine\ntools = read\n", encoding="utf-8")
    scope = typed_scope(["@mine", "calls=3"], at=0, home=home, catalogs=load_catalogs())
    assert render(scope.caveats) == ("tools=read", "calls=3")


def test_a_duration_counts_from_the_instant(tmp_path: Path) -> None:
    """An instant is what it was when it was typed."""
    home = Home.find({"BROKER_HOME": str(tmp_path)})
    scope = typed_scope(["until=1s"], at=0, home=home, catalogs=load_catalogs())
    assert render(scope.caveats) == ("until=1970-01-01T00:00:01Z",)


@pytest.mark.parametrize(("text", "kind"), [("tool=x", ScopeError), ("@nowhere", PolicyError)])
def test_what_is_malformed_is_an_error(text: str, kind: type[Exception], tmp_path: Path) -> None:
    """A misspelt key and a policy that is not there."""
    home = Home.find({"BROKER_HOME": str(tmp_path)})
    with pytest.raises((kind, ScopeError)):
        typed_scope([text], at=0, home=home, catalogs=load_catalogs())
