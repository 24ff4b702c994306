"""What ships inside the package as data is found: beside the sources, and in the wheel."""

from __future__ import annotations

from importlib.resources import files

import pytest

import broker

POLICIES = {
    "ci-triage",
    "docs",
    "fix-tests",
    "locked-down",
    "refactor",
    "release-notes",
    "research",
    "review",
}


def test_the_grammar_is_found() -> None:
    """The grammar of scope texts is read as a resource of the package."""
    assert "scope: TOOLS" in files("broker.grammar").joinpath("scope.lark").read_text(
        encoding="utf-8"
    )


def test_the_policies_are_found() -> None:
    """Every named scope is a resource of the package."""
    names = {path.name for path in files("broker.policies").iterdir()}
    assert {f"{name}.scope" for name in POLICIES} <= names


@pytest.mark.parametrize(
    "name", ["claude-code", "generic", "mcp-fetch", "mcp-filesystem", "mcp-git"]
)
def test_the_catalogs_are_found(name: str) -> None:
    """Every catalog is a resource of the package."""
    assert files("broker.catalogs").joinpath(f"{name}.toml").read_text(encoding="utf-8")


def test_the_package_is_typed() -> None:
    """The marker that tells type checkers to trust our annotations is shipped."""
    assert files(broker).joinpath("py.typed").is_file()
