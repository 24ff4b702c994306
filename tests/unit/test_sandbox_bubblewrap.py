"""The options of bubblewrap: their order is the rule of what wins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from broker.bounds import root_bounds
from broker.caveats import Caveat, hosts, paths, tools, writes
from broker.sandbox.bubblewrap import options
from broker.sandbox.plan import make_plan
from broker.sandbox.tree import listing
from broker.sandbox.walled import Needs, Walled


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a repository and the broker's own folder in it."""
    for name in ("src/.git", "state", "docs"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def made(root: Path, *caveats: Caveat) -> list[str]:
    """Return the options for a ticket."""
    plan = make_plan(root_bounds(caveats), listing(str(root)))
    state = str(root / "state")
    needs = Needs(private=("/home/x/.agent",))
    return options(
        Walled(str(root), plan, "/home/x", "/scratch", ("/usr",), needs, (state,), (), ()), info=9
    )


def at(found: list[str], *wanted: str) -> int:
    """Return where options stand in a row."""
    for n in range(len(found)):
        if tuple(found[n : n + len(wanted)]) == wanted:
            return n
    raise AssertionError(wanted)


def test_the_workspace_comes_in_order(root: Path) -> None:
    """First nothing, then what is readable, then what is writable, then the cuts."""
    found = made(root, paths("src/**"))
    src = f"{root}/src"
    order = [
        at(found, "--tmpfs", str(root)),
        at(found, "--ro-bind", src, src),
        at(found, "--bind", src, src),
        at(found, "--ro-bind", f"{src}/.git", f"{src}/.git"),
        at(found, "--remount-ro", str(root)),
        at(found, "--remount-ro", "/"),
    ]
    assert order == sorted(order)
    assert f"{root}/docs" not in found


def test_what_is_hidden_comes_after_the_workspace(root: Path) -> None:
    """The broker's own folder is covered even below a tree that the ticket grants."""
    found = made(root, paths("**"))
    assert at(found, "--tmpfs", f"{root}/state") > at(found, "--bind", str(root), str(root))


@pytest.mark.parametrize(
    ("caveats", "base", "unshared"),
    [
        ((writes("src/**"),), "--ro-bind", True),
        ((hosts("a.example"),), "--bind", True),
        ((tools("read"),), "--bind", False),
    ],
)
def test_what_is_not_limited(
    root: Path, caveats: tuple[Caveat, ...], base: str, unshared: bool
) -> None:
    """The disk is shown as far as the ticket leaves it, the network where hosts are not limited."""
    found = made(root, *caveats)
    assert at(found, base, "/", "/") >= 0
    assert ("--unshare-net" in found) == unshared
    assert found[:2] == ["--unshare-user", "--unshare-pid"]
    assert "--share-net" not in found


def test_kernel_settings_are_read_only(root: Path) -> None:
    """What root could set for the whole machine is mounted read-only after the new /proc."""
    found = made(root, hosts("a.example"))
    assert at(found, "--ro-bind", "/proc/sys", "/proc/sys") > at(found, "--proc", "/proc")
    assert at(found, "--ro-bind", "/sys", "/sys") > at(found, "--bind", "/", "/")


def test_what_is_lent_is_written_but_for_its_settings(root: Path) -> None:
    """A folder of the run's own comes after what is handed in, and its settings after that."""
    plan = make_plan(root_bounds((paths("src/**"),)), listing(str(root)))
    given = ("/s/home",)
    walled = Walled(str(root), plan, "/h", "/scratch", ("/usr",), Needs(), (), given, ())
    found = options(replace(walled, lent=("/s/home/a",), kept=("/s/home/a/settings",)))
    order = [
        at(found, "--ro-bind", "/s/home", "/s/home"),
        at(found, "--bind", "/s/home/a", "/s/home/a"),
        at(found, "--ro-bind", "/s/home/a/settings", "/s/home/a/settings"),
    ]
    assert order == sorted(order)
