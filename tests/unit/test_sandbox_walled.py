"""A run's walls as absolute places, for engines that grant and cannot cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.bounds import root_bounds
from broker.caveats import Caveat, hosts, paths, writes
from broker.sandbox.plan import make_plan
from broker.sandbox.tree import listing
from broker.sandbox.walled import Needs, Walled, granted, handed_over, loopback


def walled(root: Path, *caveats: Caveat, hidden: tuple[str, ...] = ()) -> Walled:
    """Return the walls of a ticket in a workspace on the disk."""
    plan = make_plan(root_bounds(caveats), listing(str(root)))
    return Walled(
        str(root), plan, "/home/x", "/scratch", ("/usr",), Needs(), hidden, ("/hook",), ("/s",)
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace."""
    for name in ("src/.git", "src/sub", "state/keys"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "src/a.py").write_text("")
    return tmp_path


def test_cuts_are_gone_round(root: Path) -> None:
    """What a mount would cut out again is never granted; the rest of the tree is."""
    reads, writing = granted(walled(root, paths("src/**")), ())
    assert reads is not None
    assert writing is not None
    assert {f"{root}/src", "/usr", "/hook", "/s"} <= set(reads)
    assert {f"{root}/src/a.py", f"{root}/src/sub"} <= set(writing)
    assert f"{root}/src" not in writing
    assert f"{root}/src/.git" not in writing


def test_what_is_hidden_is_gone_round(root: Path) -> None:
    """Without a limit on reading, everything is granted but what is hidden and what leads there."""
    reads, _ = granted(walled(root, writes("src/**"), hidden=(f"{root}/state",)), ())
    assert reads is not None
    assert f"{root}/src" in reads
    for above in (f"{root}/state", str(root), str(root.parent), "/"):
        assert above not in reads


def test_what_is_hidden_in_the_workspace_is_not_read(root: Path) -> None:
    """The broker's own folder is hidden even where the ticket's paths cover it."""
    found = walled(root, paths("**"), hidden=(f"{root}/state",))
    for places in granted(found, ()):
        assert places is not None
        assert f"{root}/src/a.py" in places or f"{root}/src" in places
        assert not any(f"{root}/state".startswith(place) for place in places)


def test_the_kernels_settings_are_never_written(root: Path) -> None:
    """A ticket that limits hosts alone grants writing but for the kernel's settings."""
    _, writing = granted(walled(root, hosts("a.example")), ())
    assert writing is not None
    for place in ("/", "/proc", "/sys", "/proc/sys"):
        assert place not in writing


def test_loopback_addresses_that_are_named() -> None:
    """Only addresses of this machine are carried to it, each port by a name that is admitted."""
    found = loopback(["127.0.0.1:80", "localhost:9", "localhost", "a.example:9", "10.0.0.1:9"])
    assert found == (("127.0.0.1", 80), ("localhost", 9), ("localhost", 443))


def test_what_an_adapter_adds_is_handed_over(tmp_path: Path) -> None:
    """Files that came into the session's folder after the first look are shown, no others."""
    (tmp_path / "receipt.jsonl").write_text("")
    before = ["receipt.jsonl"]
    (tmp_path / "hook.pyc").write_text("")
    assert handed_over(tmp_path, before) == (str(tmp_path / "hook.pyc"),)
