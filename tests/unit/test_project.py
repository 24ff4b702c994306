"""The project file: what it may say, and when it was accepted."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.catalogs import load_catalogs
from broker.errors import ConfigError, PolicyError, ScopeError, StoreError
from broker.home import Home
from broker.limits import MAX_CONFIG_BYTES, MAX_PROJECT_POLICIES
from broker.project import (
    Project,
    accept,
    accepted,
    load_project,
    parse_project,
    project_path,
    spelled,
    written,
)
from broker.resolve import Resolver

TEXT = '[scope]\ndefault = ["calls=3"]\nclaude = ["@house", "until=45m"]\n'
HOUSE = "# House rules.\npaths = src/**\n@review\n"


class Ground:
    """A workspace with a project, and a home."""

    def __init__(self, root: Path) -> None:
        self.workspace = root / "ws"
        self.home = Home.find({"BROKER_HOME": str(root / "home")})
        self.folder = self.workspace / ".broker"
        self.policies = self.folder / "policies"
        self.policies.mkdir(parents=True)
        self.file = self.folder / "broker.toml"
        self.file.write_text(TEXT)
        (self.policies / "house.scope").write_text(HOUSE)

    def load(self) -> Project:
        """Return the project, which is there."""
        found = load_project(self.workspace)
        assert found is not None
        return found


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """A workspace of this test's own."""
    return Ground(tmp_path)


# ── what it says ──


def test_a_scope_for_each_agent(ground: Ground) -> None:
    """By the program's name, with or without a folder, and the default for all others."""
    project = ground.load()
    assert project.scope("/usr/bin/claude") == project.scope("claude.exe")
    assert project.scope("claude") == ("@house", "until=45m")
    assert project.scope("pi") == ("calls=3",)
    assert parse_project(Path("/w"), {"broker.toml": 'scope.pi=["calls=1"]'}).scope("x") is None


def test_no_file_is_no_project(tmp_path: Path) -> None:
    """Nothing is there, or its place is no folder."""
    assert load_project(tmp_path) is None
    (tmp_path / ".broker").touch()
    assert load_project(tmp_path) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "scope = 1",
        "[scope]",
        "[scope",
        "[scope]\nx = 'calls=1'",
        "[scope]\nx = []",
        "[scope]\nx = [1]",
        "[scope]\nx = ['']",
        "[scope]\n'a b' = ['calls=1']",
        "[scope]\n'../x' = ['calls=1']",
        "[scope]\nx = ['@./policies/a.scope']",
        "[scope]\nx = [' @/etc/a.scope']",
        "[broker]\nenabled = false",
        "[scope]\nx = ['calls=1']\n[broker]\nenabled = false",
    ],
)
def test_what_is_not_understood_is_an_error(text: str) -> None:
    """With the file's name, and never a scope that is partly right."""
    with pytest.raises(ConfigError, match=r"/w/\.broker/broker\.toml"):
        parse_project(Path("/w"), {"broker.toml": text})


def test_what_cannot_be_read_is_an_error(ground: Ground) -> None:
    """A link, a folder, a pipe, too much, and what is no text."""
    ground.file.unlink()
    ground.file.symlink_to(ground.policies / "house.scope")
    with pytest.raises(ConfigError):
        ground.load()
    ground.file.unlink()
    ground.file.mkdir()
    with pytest.raises(ConfigError, match="plain file"):
        ground.load()
    ground.file.rmdir()
    os.mkfifo(ground.file)
    with pytest.raises(ConfigError, match="plain file"):
        ground.load()
    ground.file.unlink()
    for content in (b"#" * (MAX_CONFIG_BYTES + 1), b"\xff"):
        ground.file.write_bytes(content)
        with pytest.raises(ConfigError):
            ground.load()


def test_too_many_policies_are_an_error(ground: Ground) -> None:
    """All of them would have to be read by a person."""
    for n in range(MAX_PROJECT_POLICIES):
        (ground.policies / f"p{n}.scope").write_text(HOUSE)
    with pytest.raises(ConfigError, match="more than"):
        ground.load()


@pytest.mark.parametrize("line", ["@./x.scope", "  @/etc/x.scope", "@../../x # why"])
def test_a_policy_names_no_file(ground: Ground, line: str) -> None:
    """Nobody accepted what lies there."""
    (ground.policies / "house.scope").write_text(f"{HOUSE}{line}\n")
    with pytest.raises(ConfigError, match=r"house\.scope"):
        ground.load()


# ── policies ──


def test_policies_are_spelled_out(ground: Ground) -> None:
    """The project's own come first, and include shipped ones by name."""
    project = ground.load()
    texts = spelled(project, ["@house", "calls=9"])
    assert texts[0] == "paths=src/**"
    assert texts[-1] == "calls=9"
    assert not any(text.startswith("@") for text in texts)
    with pytest.raises(PolicyError):
        spelled(project, ["@nowhere"])


def test_policies_in_a_circle(ground: Ground) -> None:
    """They are refused, and so is one that says nothing that is understood."""
    (ground.policies / "house.scope").write_text("# A.\n@other\n")
    (ground.policies / "other.scope").write_text("# B.\n@house\n")
    with pytest.raises(PolicyError, match="include each other"):
        spelled(ground.load(), ["@house"])
    (ground.policies / "other.scope").write_text("# B.\nnonsense\n")
    with pytest.raises(ScopeError, match=r"other\.scope:2"):
        spelled(ground.load(), ["@house"])


# ── what was accepted ──


def test_what_was_accepted_stays_so(ground: Ground) -> None:
    """Until it changes, and for this workspace, by whatever name it is reached."""
    assert accepted(ground.load(), ground.home) is None
    accept(ground.load(), ground.home)
    assert accepted(ground.load(), ground.home) is not None
    link = ground.workspace.with_name("link")
    link.symlink_to(ground.workspace)
    by_link = load_project(link)
    assert by_link is not None
    assert accepted(by_link, ground.home) is not None
    assert ground.home.projects.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("how", ["file", "comment", "policy", "added", "removed"])
def test_any_change_ends_what_was_accepted(ground: Ground, how: str) -> None:
    """Of the file, of a policy, also of one that no scope names; and going back restores it."""
    accept(ground.load(), ground.home)
    before = ground.load()
    if how in ("file", "comment"):
        ground.file.write_text(TEXT + ('x = ["calls=1"]\n' if how == "file" else "#\n"))
    elif how == "policy":
        (ground.policies / "house.scope").write_text("# House rules.\npaths = **\n")
    elif how == "added":
        (ground.policies / "new.scope").write_text(HOUSE)
    else:
        (ground.policies / "house.scope").unlink()
    assert accepted(ground.load(), ground.home) is None
    assert ground.load().digest != before.digest
    assert accepted(before, ground.home) is not None


def test_a_copy_elsewhere_is_not_accepted(ground: Ground, tmp_path: Path) -> None:
    """The same content in another workspace was accepted by nobody."""
    accept(ground.load(), ground.home)
    other = tmp_path / "other"
    ground.workspace.rename(other)
    moved = load_project(other)
    assert moved is not None
    assert accepted(moved, ground.home) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"files": 1}'])
def test_a_broken_record_is_an_error(ground: Ground, content: bytes) -> None:
    """It is never taken for an acceptance, nor passed over."""
    accept(ground.load(), ground.home)
    (kept,) = ground.home.projects.iterdir()
    kept.write_bytes(content)
    with pytest.raises(ConfigError, match="accept the project again"):
        accepted(ground.load(), ground.home)


def test_what_cannot_be_kept_is_an_error(ground: Ground) -> None:
    """Then nothing was accepted."""
    ground.home.projects.parent.mkdir(parents=True)
    ground.home.projects.write_text("in the way")
    with pytest.raises(StoreError):
        accept(ground.load(), ground.home)


def test_no_tool_writes_it(ground: Ground) -> None:
    """Under a ticket that permits all, the file and what was accepted are the broker's own."""
    accept(ground.load(), ground.home)
    resolver = Resolver(ground.workspace, load_catalogs(), own=ground.home.own())
    (kept,) = ground.home.projects.iterdir()
    for path in (".broker/broker.toml", ".broker/policies/house.scope", str(kept)):
        call = resolver.resolve("write_file", {"path": path, "content": ""})
        assert [subject.own for subject in call.paths] == [True]


# ── what is written ──

TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20)


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,8}", fullmatch=True),
        st.lists(TEXTS, min_size=1, max_size=3),
        min_size=1,
        max_size=4,
    )
)
def test_what_is_written_is_read_again(scopes: dict[str, list[str]]) -> None:
    """The file says exactly the scopes that it was made of."""
    assert tomllib.loads(written(scopes)) == {"scope": scopes}


def test_the_place_of_the_file() -> None:
    """It lies in the folder of the workspace's own settings."""
    assert project_path(Path("/w")).as_posix() == "/w/.broker/broker.toml"
