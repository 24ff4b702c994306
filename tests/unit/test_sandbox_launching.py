"""Whether a run gets walls, and what is said, started and removed around it."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from broker.errors import InputError
from broker.sandbox.ceilings import Ceilings
from broker.sandbox.launching import Wanted
from tests import sandboxkit
from tests.runkit import ASKER
from tests.sandboxkit import Ended, needed, run, start
from tests.sessionkit import Bench

pytestmark = pytest.mark.timeout(120)
SCOPE = ("tools=Bash,Read", "paths=src/**")
FORKS = """
import os, time
made = 0
for _ in range(60):
    try:
        if os.fork() == 0:
            time.sleep(1)
            os._exit(0)
    except OSError:
        break
    made += 1
print(made)
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A workspace with something that the scope does not name."""
    found = Bench(tmp_path)
    (found.workspace / "key").write_text("SECRET\n")
    return found


@pytest.fixture(params=sandboxkit.ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine that this machine has."""
    found = str(request.param)
    needed(found)
    return found


def test_what_was_typed() -> None:
    """A mode, limits and ports are read; limits without a sandbox hold nothing, and are refused."""
    assert Wanted.read("auto", ["cpu=1m"], [80, 80]) == Wanted("auto", Ceilings(cpu_s=60), (80,))
    for given in (("on",), ("",), ("off", ["cpu=1m"]), ("off", [], [80]), ("auto", [], [0])):
        with pytest.raises(InputError):
            Wanted.read(*given)  # type: ignore[arg-type]  # rows of different lengths


def test_the_ticket_holds_below_the_tools(bench: Bench, engine: str) -> None:
    """What the scope names can be written, its neighbour not read, and the receipt says how."""
    scratch = bench.workspace.parent / "scratch"
    scratch.mkdir()
    environ = {"TMPDIR": str(scratch)}
    ended = run(bench, "echo x > src/new; cat key", *SCOPE, engine=engine, environ=environ)
    assert (bench.workspace / "src/new").exists()
    assert "SECRET" not in ended.out
    assert ended.code != 0
    assert any(note.startswith("held by the kernel") for note in ended.notes())
    assert list(scratch.iterdir()) == []


def test_a_named_shell_is_enforced_by_the_kernel(bench: Bench) -> None:
    """Under walls that hold, a named shell is allowed with `kernel`, and may be required to be."""
    needed("bubblewrap")
    for mode, engine, word in (
        ("require", "bubblewrap", "kernel"),
        ("auto", "landlock", "none"),
        ("auto", "none", "none"),
    ):
        if engine == "landlock" and not sandboxkit.only(engine).landlock:
            continue
        command = [sys.executable, "-c", ASKER, "1"]
        ended = Ended(bench, start(bench, command, *SCOPE, engine=engine, mode=mode), 60)
        found = [d for kind, d in ended.entries() if kind == "decision" and d["tool"] == "Bash"]
        assert [d["enforcement"] for d in found] == [word], ended.err


def test_required_enforcement_needs_the_walls(bench: Bench) -> None:
    """`--require-enforcement` lets the shell pass where the kernel holds it, and not elsewhere."""
    needed("bubblewrap")
    command = [sys.executable, "-c", ASKER, "1"]
    held = Ended(bench, start(bench, command, *SCOPE, enforced=True), 60)
    assert "s0 allow" in held.out, held.err
    loose = Ended(bench, start(bench, command, *SCOPE, enforced=True, engine="none"), 60)
    assert "s0 enforcement" in loose.out


def test_without_an_engine(bench: Bench) -> None:
    """`auto` says that there are no walls and goes on; `require` starts nothing."""
    ended = run(bench, "cat key", *SCOPE, engine="none")
    assert ended.out == "SECRET\n"
    assert "sandbox: none" in ended.err
    assert any(note.startswith("no walls") for note in ended.notes())
    ended = run(bench, "cat key", *SCOPE, engine="none", mode="require")
    assert (ended.code, ended.out) == (2, "")
    assert "LaunchError" in ended.err


def test_require_starts_no_canary_without_an_engine(bench: Bench, tmp_path: Path) -> None:
    """Where there can be no walls, an agent is not even tried."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/claude"
    program.write_text(f"#!/bin/sh\ncase $* in *canary*) touch {tmp_path}/tried;; esac\n")
    program.chmod(0o755)
    command = [str(program), "-p", "x"]
    ended = Ended(bench, start(bench, command, *SCOPE, engine="none", mode="require"), 60)
    assert ended.code == 2
    assert "sandbox is required" in ended.err
    assert not (tmp_path / "tried").exists()


def test_require_takes_no_engine_with_gaps(bench: Bench) -> None:
    """An engine that says what it does not hold is not enough for `require`."""
    needed("landlock")
    ended = run(bench, "cat src/a.py", *SCOPE, engine="landlock", mode="require")
    assert (ended.code, ended.out) == (2, "")
    assert "does not hold" in ended.err


def test_a_scope_that_limits_nothing_has_no_walls(bench: Bench) -> None:
    """Where neither paths nor hosts are limited, `auto` builds nothing."""
    ended = run(bench, "cat key", "tools=Bash")
    assert ended.out == "SECRET\n"
    assert "sandbox" not in ended.err


def test_a_workspace_that_is_too_large_is_said(bench: Bench) -> None:
    """What cannot be planned is no walls under `auto`, in words, and nothing under `require`."""
    for n in range(1_100):
        (bench.workspace / f"f{n}.py").write_text("")
    ended = run(bench, "true", "tools=Bash", "paths=*.py")
    assert "name folders in the scope" in ended.err
    assert run(bench, "true", "tools=Bash", "paths=*.py", mode="require").code == 2


def test_a_ticket_that_ends_stops_the_run(bench: Bench, engine: str) -> None:
    """At the ticket's end the whole tree of processes is told to go, and the receipt says so."""
    script = (
        "trap 'echo bye; exit 3' TERM; setsid sleep 300 & sleep 0.1; while :; do sleep 0.1; done"
    )
    begun = time.monotonic()
    ended = run(bench, script, *SCOPE, "until=2s", engine=engine)
    assert time.monotonic() - begun < 30
    assert (ended.code, ended.out) == (3, "bye\n"), ended.err
    told = [str(d.get("text")) for kind, d in ended.entries() if kind == "note"]
    assert any("its ticket has ended" in text for text in told)


@pytest.mark.deep
def test_an_agent_that_does_not_go_is_killed(bench: Bench) -> None:
    """Who ignores the signal to end is killed, with all that it started."""
    needed("bubblewrap")
    script = "trap '' TERM; (trap '' TERM; sleep 321) & while :; do sleep 0.1; done"
    ended = run(bench, script, *SCOPE, limits=["wall=1s"], timeout_s=60)
    assert ended.code == 137, ended.err
    assert "limit wall" in ended.err
    assert not any(b"sleep\x00321" in p for p in _command_lines())


def _command_lines() -> list[bytes]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(place.read_bytes())
        except OSError:
            continue
    return found


def test_a_killed_broker_takes_the_run_along(bench: Bench) -> None:
    """When the broker is killed, nothing within the walls goes on."""
    needed("bubblewrap")
    process = start(bench, ["sh", "-c", "echo up; sleep 322"], *SCOPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.kill()
    process.communicate(timeout=30)
    until = time.monotonic() + 10
    while any(b"sleep\x00322" in p for p in _command_lines()):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_signals_reach_the_agent(bench: Bench, engine: str) -> None:
    """A signal to the broker is passed through the walls, and the agent ends in its own way."""
    script = "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.1; done"
    process = start(bench, ["sh", "-c", script], *SCOPE, engine=engine)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    os.kill(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (5, "bye\n"), err


def test_limits_hold(bench: Bench, engine: str) -> None:
    """Memory and processor time end what uses too much of them."""
    ended = run(
        bench,
        f"{sys.executable} -c 'x = bytearray(900 * 2**20)' 2>&1 | tail -1; ulimit -t",
        *SCOPE,
        engine=engine,
        limits=["memory=200M", "cpu=9s"],
    )
    assert "MemoryError" in ended.out, ended.out + ended.err
    assert ended.out.split()[-1] == "9"


def test_a_limit_on_processes_holds_or_is_said_not_to(bench: Bench) -> None:
    """Who has neither control groups nor a user that is counted is told, or starts nothing."""
    needed("bubblewrap")
    script = f"exec {sys.executable} -c '{FORKS}'"
    ended = run(bench, script, *SCOPE, limits=["processes=40"])
    loose = "does not hold: it takes control groups" in ended.err
    assert (ended.out == "60\n") == loose, ended.out + ended.err
    if loose:
        ended = run(bench, script, *SCOPE, limits=["processes=40"], mode="require")
        assert (ended.code, ended.out) == (2, "")


def test_a_repository_that_is_made_is_told(bench: Bench, engine: str) -> None:
    """A wall cannot stop a new `.git`; it is told at the end, since its hooks are programs."""
    ended = run(bench, "git init -q src/new", *SCOPE, engine=engine)
    assert "made within the walls" in ended.err
    assert any("src/new/.git" in note for note in ended.notes())


def test_a_repository_that_is_made_at_once_is_told(bench: Bench, engine: str) -> None:
    """What is made while a large workspace is looked through is new as well."""
    for n in range(1_500):
        (bench.workspace / f"src/d{n}").mkdir()
    ended = run(bench, "mkdir src/d0/.git", *SCOPE, engine=engine)
    assert any("src/d0/.git" in note for note in ended.notes())


def test_walls_that_do_not_stand_leave_nothing_behind(bench: Bench, tmp_path: Path) -> None:
    """Where `auto` goes on without walls, the ports are the agent's, and nothing is blamed."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bwrap").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin/bwrap").chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = f"mkdir src/.git; {sys.executable} -c 'import socket; "
    script += f'socket.socket().bind(("127.0.0.1", {port}))\' && echo bound'
    environ = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    ended = run(bench, script, *SCOPE, engine="bubblewrap alone", ports=[port], environ=environ)
    assert "sandbox: none" in ended.err
    assert ended.out == "bound\n", ended.err
    assert "made within" not in ended.err


def test_refused_hosts_are_in_the_receipt(bench: Bench) -> None:
    """A host out of scope is refused readably, noted once, and counted."""
    needed("bubblewrap")
    script = "curl -s http://a.example/; curl -s http://a.example/"
    ended = run(bench, script, *SCOPE, "hosts=b.example")
    assert ended.out.count("refused (hosts): host `a.example`") == 2
    notes = [n for n in ended.notes() if "a.example" in n]
    assert len(notes) == 1
    assert "2 connections were refused by the walls" in ended.notes()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_port_that_is_roots_is_carried(bench: Bench, engine: str, name: str) -> None:
    """A named address on loopback whose port takes rights is reached, and its neighbour is not."""
    with (
        socket.create_server(("127.0.0.1", 0)) as named,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        threading.Thread(target=lambda: named.accept()[0].sendall(b"hello"), daemon=True).start()
        port, near = named.getsockname()[1], other.getsockname()[1]
        script = f"exec 3<>/dev/tcp/127.0.0.1/{port}; head -c 5 <&3; grep -c . /proc/net/route; "
        script += f"(exec 4<>/dev/tcp/127.0.0.1/{near}) 2>/dev/null || echo held"
        command = ["bash", "-c", script]
        scope = (*SCOPE, f"hosts={name}:{port}")
        ended = Ended(bench, start(bench, command, *scope, engine=engine, low=65_536), 60)
    assert ended.out == "hello1\nheld\n", ended.err
    assert any("connected to" in note for note in ended.notes())


def test_a_plain_command_asks_no_model_that_the_scope_does_not_name(bench: Bench) -> None:
    """The recording stands before models, and leads a plain command to those in scope alone."""
    needed("bubblewrap")
    with socket.create_server(("127.0.0.1", 0)) as model:
        url = f"127.0.0.1:{model.getsockname()[1]}"
        script = "curl -s -m 5 -d x $OPENAI_BASE_URL/responses"
        environ = {"OPENAI_BASE_URL": f"http://{url}"}
        more = {"environ": environ, "record": True}
        ended = run(bench, script, *SCOPE, "hosts=none", **more)
        model.settimeout(0.01)
        with pytest.raises(TimeoutError):
            model.accept()
        assert "no model is asked" in ended.out, ended.err
        assert "not asked through the recording: anthropic, openai, gemini" in ended.err
        assert "agent's model" not in ended.err
        model.settimeout(20)
        ended = run(bench, script, *SCOPE, f"hosts={url}", **more)
        model.accept()[0].close()
    assert f"reachable for the agent's model, and so for its tools too: {url}" in ended.err


def test_a_port_that_is_taken_is_said(bench: Bench) -> None:
    """A port that cannot be shown ends `require`, and no walls are left half built."""
    needed("bubblewrap")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run(bench, "echo ran", *SCOPE, mode="require", ports=[port])
    assert (ended.code, ended.out) == (2, "")
    assert "cannot be shown" in ended.err
