"""What each engine is told, and what it says that it does not hold."""

from __future__ import annotations

import marshal
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from broker.bounds import root_bounds
from broker.caveats import Caveat, hosts, paths, tools
from broker.child import Child
from broker.errors import LaunchError
from broker.sandbox.engines import GAPS, Order, Starting, prepared
from broker.sandbox.machine import Engine, Machine
from broker.sandbox.plan import make_plan
from broker.sandbox.tree import listing
from broker.sandbox.walled import Needs, Walled

WITHOUT_SPACES = Machine("", 7, False, True)


def order(root: Path, *caveats: Caveat, needs: Needs | None = None) -> Order:
    """Return an order to start something under a ticket."""
    plan = make_plan(root_bounds(caveats), listing(str(root)))
    walled = Walled(str(root), plan, "/home/x", str(root), ("/usr",), needs or Needs(), (), (), ())
    environ = {"PATH": "/usr/bin", "SSH_AUTH_SOCK": "/x", "A": "\udcff"}
    return Order(walled, "/bin/true", ["true"], environ, root, [], None)


def held(engine: Engine, machine: Machine, wanted: Order) -> tuple[str, tuple[str, ...]]:
    """Return what an engine says."""
    with prepared(engine, machine, wanted) as start:
        return start.held.text, start.held.missing


def test_bubblewrap_with_landlock_holds_everything(tmp_path: Path) -> None:
    """Nothing is missing where both are there, or where the network is its own."""
    both = Machine("/usr/bin/bwrap", 7, None, True)
    text, missing = held("bubblewrap", both, order(tmp_path, paths("src/**")))
    assert "bubblewrap" in text
    assert "ABI 7" in text
    assert not missing
    alone = Machine("/usr/bin/bwrap", 0, None, True)
    assert not held("bubblewrap", alone, order(tmp_path, paths("src/**")))[1]
    assert held("bubblewrap", alone, order(tmp_path, tools("read")))[1]


def test_landlock_says_what_it_does_not_hold(tmp_path: Path) -> None:
    """Sockets, modes and old kernels are named, and hosts where no name spaces can be made."""
    text, missing = held("landlock", WITHOUT_SPACES, order(tmp_path, paths("src/**")))
    assert "filter of system calls" in text
    assert missing == GAPS
    _, more = held("landlock", WITHOUT_SPACES, order(tmp_path, hosts("a.example")))
    assert any("no host is reached" in each for each in more)
    old = Machine("", 2, False, True)
    assert len(held("landlock", old, order(tmp_path, paths("src/**")))[1]) == len(GAPS) + 2


def test_landlock_lends_no_folder_with_settings_in_it(tmp_path: Path) -> None:
    """Where a file in a writable folder must stay as it is, an engine that only grants is none."""
    wanted = order(tmp_path, paths("src/**"))
    lending = replace(wanted, walled=replace(wanted.walled, lent=("/s/home",)))
    with pytest.raises(LaunchError, match="mounts"), prepared("landlock", WITHOUT_SPACES, lending):
        pass


@pytest.mark.parametrize(
    ("scope", "tried"),
    [(paths("src/**"), True), (paths("gone/**"), True), (paths("**"), False), (tools("a"), False)],
)
def test_writing_outside_is_tried_under_every_narrow_ticket(
    tmp_path: Path, scope: Caveat, tried: bool
) -> None:
    """A file is tried in the workspace's own folder wherever the ticket does not name all of it."""
    (tmp_path / "src").mkdir()
    (tmp_path / "tmp").mkdir()
    with prepared("landlock", WITHOUT_SPACES, order(tmp_path, scope)) as start:
        told = marshal.loads(os.pread(start._fds["order"], 1 << 20, 0))
    assert told["canary"]["outside"] == ([str(tmp_path)] if tried else [])


def test_descriptors_are_closed(tmp_path: Path) -> None:
    """Whatever happens, no pipe of an attempt stays open."""
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(LaunchError), prepared("landlock", WITHOUT_SPACES, order(tmp_path)):
        raise LaunchError("x")
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_program_that_says_nothing_is_a_failure(tmp_path: Path) -> None:
    """What ends without a report has no walls."""
    with prepared("landlock", WITHOUT_SPACES, order(tmp_path)) as start:
        silent = Starting(start.held, ["/bin/true"], start._fds)
        with Child() as child, pytest.raises(LaunchError, match="could not be set up"):
            silent.begin(child)


def test_signals_go_to_the_first_process() -> None:
    """A signal to one that has ended is no error."""
    start = Starting.__new__(Starting)
    start.pid = 2**22 - 3
    start._signal(signal.SIGTERM)
    assert start.pid
