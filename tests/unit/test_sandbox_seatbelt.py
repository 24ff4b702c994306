"""The profile of macOS's sandbox, read as text: no Mac is needed, and none has run it."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from broker.bounds import root_bounds
from broker.caveats import Caveat, hosts, paths, tools
from broker.child import Child
from broker.errors import LaunchError
from broker.sandbox.engines import prepared
from broker.sandbox.machine import Machine
from broker.sandbox.plan import Item, make_plan
from broker.sandbox.seatbelt import Doors, profile
from broker.sandbox.walled import Needs, Walled
from tests.sandboxkit import run
from tests.seatbeltkit import Rule, permits, rules
from tests.sessionkit import Bench
from tests.unit.test_sandbox_engines import order

SCOPE = ("tools=Bash", "paths=src/**")
LINKS = {"/etc": "/private/etc", "/var": "/private/var", "/tmp": "/private/tmp"}


def real(path: str) -> str:
    """Follow the links that every Mac has."""
    for link, there in LINKS.items():
        if path == link or path.startswith(f"{link}/"):
            return there + path[len(link) :]
    return path


def made(*caveats: Caveat, doors: Doors | None = None, hidden: tuple[str, ...] = ()) -> list[Rule]:
    """Return the rules for a small workspace."""
    tree = {"": [Item("src", "folder"), Item("key", "file")], "src/": [Item('a "b"\\c', "file")]}
    plan = make_plan(root_bounds(caveats), lambda place: tree.get(place, []))
    needs = Needs(("/h/.agent",), ("/h/.agent/settings",), ("/h/.agent/talks",))
    system = ("/usr", "/etc/hosts")
    run = Walled("/w", plan, "/h", "/s", system, needs, hidden, ("/k/s/hook",), ("/s/egress",))
    return rules(profile(run, doors or Doors(), real))


def of(found: list[Rule], operation: str) -> str:
    """Return all that allows an operation, as text."""
    return str([rule.filters for rule in found if rule.answer == "allow" and rule.of(operation)])


def test_the_system_is_seen_through_its_links() -> None:
    """A file of the system's is allowed where it really lies, and looked for where it is named."""
    found = made(paths("src/**"))
    assert permits(found, "file-read-data", "/private/etc/hosts")
    assert permits(found, "file-read-metadata", "/etc")
    assert not permits(found, "file-read-data", "/private/etc/master.passwd")
    assert not permits(found, "file-read-metadata", "/h/notes")
    assert permits(found, "file-read-data", "/usr/lib/libSystem.dylib")
    assert not permits(found, "file-write-data", "/usr/lib/libSystem.dylib")


def test_odd_names_are_one_text() -> None:
    """Quotes and backslashes in a name end no text and begin no rule."""
    found = made(paths('src/a "b"\\\\c'))
    assert permits(found, "file-write-data", '/w/src/a "b"\\c')
    assert not permits(found, "file-write-data", "/w/src/new")


def test_an_agents_own_folder() -> None:
    """What the agent needs of its folder is open, and the rest of it is not."""
    found = made(tools("Bash"))
    assert permits(found, "file-write-data", "/h/.agent/talks/1")
    assert permits(found, "file-read-data", "/h/.agent/settings")
    assert not permits(found, "file-write-data", "/h/.agent/settings")
    assert not permits(found, "file-read-data", "/h/.agent/plugins/x")


def test_what_is_handed_in_wins_over_what_is_hidden() -> None:
    """The broker's keys and sessions are closed, and its hook in there is read."""
    found = made(tools("Bash"), hidden=("/k", "/h/.ssh"))
    assert permits(found, "file-read-data", "/k/s/hook")
    for path in ("/k/s/receipt", "/k/key", "/h/.ssh/id_rsa"):
        assert not permits(found, "file-read-data", path)
        assert not permits(found, "file-write-data", path)
    assert not permits(found, "file-write-unlink", "/h")


def test_what_is_lent_is_written_but_for_its_settings() -> None:
    """A folder of the run's own is written, and the settings in it neither changed nor moved."""
    plan = make_plan(root_bounds((paths("src/**"),)), lambda _: [])
    walled = Walled("/w", plan, "/h", "/s", ("/usr",), Needs(), ("/k",), ("/k/s/home",), ())
    lending = replace(walled, lent=("/k/s/home/a",), kept=("/k/s/home/a/b/settings",))
    found = rules(profile(lending, Doors(), real))
    assert permits(found, "file-write-data", "/k/s/home/a/new")
    assert not permits(found, "file-write-data", "/k/s/home/a/b/settings")
    assert not permits(found, "file-write-unlink", "/k/s/home/a/b")
    assert not permits(found, "file-write-data", "/k/s/receipt")


def test_the_network_is_one_port() -> None:
    """Where hosts are limited, nothing is reached but the proxy and the broker's sockets."""
    found = made(hosts("a.example"), doors=Doors((4_000,), (4_000,)))
    outward = of(found, "network-outbound")
    assert "localhost:4000" in outward
    assert "/s/egress" in outward
    assert "'ip'" not in outward.replace("'remote', 'ip'", "")
    assert "mDNSResponder" not in outward
    assert not any(rule.of("network-outbound") and not rule.filters for rule in found[1:])
    assert not of(found, "system-socket").strip("[]")
    free = of(made(tools("Bash")), "network-outbound")
    assert "mDNSResponder" in free
    assert "localhost" not in free


def test_nothing_is_asked_to_start_a_program() -> None:
    """No service that opens files, keeps keys or fetches is looked up."""
    services = of(made(paths("src/**")), "mach-lookup")
    for word in ("launchservices", "coreservices", "securityd", "Security", "pasteboard", "trustd"):
        assert word not in services
    assert "opendirectoryd.libinfo" in services
    assert not of(made(paths("src/**")), "appleevent-send").strip("[]")


def test_the_terminal_is_the_runs_own() -> None:
    """Of the terminals that are there, only the run's own is open."""
    found = made(paths("src/**"), doors=Doors(terminal="/dev/ttys003"))
    assert permits(found, "file-write-data", "/dev/ttys003")
    assert not permits(found, "file-write-data", "/dev/ttys004")


def stand_in(folder: Path) -> str:
    """Make a program that takes what `sandbox-exec` takes, and holds nothing."""
    place = folder / "sandbox-exec"
    place.write_text('#!/bin/sh\ntest "$1" = -f && head -1 "$2" >&2\nshift 2\nexec "$@"\n')
    place.chmod(0o755)
    return str(place)


def test_a_run_starts_behind_a_profile(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The first process is started by that program, proves its walls, and runs the agent."""
    machine = Machine("", 0, False, False, stand_in(tmp_path))
    with prepared("seatbelt", machine, order(tmp_path, tools("Bash"))) as start, Child() as child:
        start.begin(child)
        start.go()
        assert child.wait(lambda: None) == 0
    assert len(start.held.missing) == 3
    assert "(version 1)" in capfd.readouterr().err


def test_walls_that_do_not_hold_start_nothing(tmp_path: Path) -> None:
    """Where the profile holds nothing, the canary says so, and the run goes on without walls."""
    bench = Bench(tmp_path)
    stand_in(tmp_path)
    ended = run(bench, "echo ran", *SCOPE, engine=f"seatbelt {tmp_path}")
    assert "a wall does not hold" in ended.err
    assert "sandbox: none" in ended.err
    assert ended.out == "ran\n"
    ended = run(
        bench,
        "echo ran",
        "tools=Bash",
        "paths=src/**",
        engine=f"seatbelt {tmp_path}",
        mode="require",
    )
    assert (ended.code, ended.out) == (2, "")
    assert "not been tried" in ended.err


@pytest.mark.skipif(sys.platform != "darwin", reason="this is no Mac")
def test_a_mac_reads_the_profile(tmp_path: Path) -> None:
    """On a Mac the profile is read, and holds a shell to its folder."""
    bench = Bench(tmp_path)
    ended = run(bench, "echo x > src/a; echo x > b; true", *SCOPE)
    assert ended.code == 0, ended.err
    assert os.listdir(bench.workspace) == ["src"]


def test_a_path_that_no_profile_can_name_ends_the_start(tmp_path: Path) -> None:
    """The start fails in words, and leaves no descriptor open."""
    root = tmp_path / "a\nb"
    root.mkdir()
    machine = Machine("", 0, False, False, stand_in(tmp_path))
    with (
        pytest.raises(LaunchError, match="control character"),
        prepared("seatbelt", machine, order(root, paths("**"))),
    ):
        pass
