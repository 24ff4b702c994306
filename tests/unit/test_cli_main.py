"""The console command: the hook's door first, and nothing imported that is not needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console import COMMAND, process


def loaded(*words: str) -> set[str]:
    """Return the modules that a command line has loaded when it ends."""
    code = (
        "import sys, atexit\n"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))\n"
        "from broker.cli.main import main\n"
        f"main({list(words)!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, stdin=subprocess.DEVNULL, check=False
    )
    return set(done.stderr.decode().split())


def test_a_hook_loads_nothing() -> None:
    """A hook goes to its client before typer, json or anything of the core is imported."""
    modules = loaded("hook", "claude-code")
    assert "broker.hookclient" in modules
    heavy = {"typer", "json", "re", "socket", "broker.cli.door", "broker.authorize", "dataclasses"}
    # The editable finder and the site's own files may bring some of these in a checkout.
    before = set(
        subprocess.run(
            [sys.executable, "-c", "import sys; print(*sys.modules)"],
            capture_output=True,
            check=True,
        )
        .stdout.decode()
        .split()
    )
    assert modules & heavy <= before


def test_a_check_loads_what_it_needs() -> None:
    """A dry run loads neither pydantic nor rich, cryptography, receipts or sessions."""
    modules = loaded("check", "read_file", "path=a", "--scope", "paths=src")
    assert "broker.authorize" in modules
    assert not {m for m in modules if m.split(".")[0] in {"pydantic", "rich", "cryptography"}}
    assert not {m for m in modules if m.startswith(("broker.receipt", "broker.session"))}


def test_help_loads_no_language() -> None:
    """Showing help loads no grammar, catalogs or receipts."""
    modules = loaded("--help")
    assert "typer" in modules
    assert not modules & {"lark", "broker.scope", "broker.catalogs", "broker.receipt", "tomllib"}


def test_a_hook_without_a_session_refuses() -> None:
    """A hook that finds no session answers with a denial."""
    said = process("hook", "claude-code", stdin=b"{}", env={"BROKER_SOCKET": ""})
    answer = json.loads(said.out)
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
    other = process("hook", "nobody", stdin=b"{}")
    assert (other.code, other.out) == (2, "")
    assert other.err


@pytest.mark.parametrize("words", [("hook",), ("hook", "a", "b", "c"), ("hook", "")])
def test_a_hook_wrongly_started_refuses(words: tuple[str, ...]) -> None:
    """A hook started with other words refuses, too."""
    said = process(*words, stdin=b"{}")
    assert said.code == 2 or "deny" in said.out


def test_a_process_of_its_own(tmp_path: Path) -> None:
    """The command works as a person starts it."""
    said = process("check", "read_file", "path=a", "--scope", "paths=src", cwd=tmp_path)
    assert said.code == 1
    assert said.out.startswith("refused (paths): ")
    assert said.err == ""


def test_ctrl_c() -> None:
    """Ctrl-C ends with 130 and without a traceback."""
    with subprocess.Popen(
        [sys.executable, "-c", "from broker.cli.main import main; main(['check','--batch','-'])"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b'{"scope":[],"tool":"a"}\n')
        child.stdin.flush()
        assert child.stdout.readline().startswith(b'{"decision": "allow"')
        os.kill(child.pid, 2)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert err == b""


def test_a_reader_that_leaves() -> None:
    """A pipe that its reader closes ends the batch quietly."""
    line = b'{"scope":[],"tool":"a"}\n'
    with subprocess.Popen(
        [sys.executable, "-c", "from broker.cli.main import main; main(['check','--batch','-'])"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(line)
        child.stdin.flush()
        child.stdout.readline()
        child.stdout.close()
        child.stdin.write(line * 3)
        child.stdin.close()
        assert child.stderr is not None
        assert child.stderr.read() == b""
        assert child.wait(60) == 2


FULL = Path("/dev/full")
full = pytest.mark.skipif(not FULL.exists(), reason="the system has no device that is full")


@full
@pytest.mark.parametrize("words", [("--help",), ("check", "a", "--scope", "tools=a", "--json")])
def test_an_answer_that_cannot_be_written_is_none(words: tuple[str, ...]) -> None:
    """On a full disk the exit code is 2, and one line says why."""
    with FULL.open("wb") as sink:
        done = subprocess.run([*COMMAND, *words], stdout=sink, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"broker: ")
    assert done.stderr.endswith(b"no space left on device\n")
    assert done.stderr.count(b"\n") == 1


@full
@pytest.mark.parametrize(("scope", "code"), [("tools=a", 0), ("tools=b", 1), ("tools", 2)])
def test_a_diagnosis_that_cannot_be_written_changes_no_answer(scope: str, code: int) -> None:
    """With standard error full the exit code is still the answer's."""
    with FULL.open("wb") as sink:
        words = ("check", "a", "--scope", scope)
        done = subprocess.run([*COMMAND, *words], stdout=subprocess.PIPE, stderr=sink, check=False)
        assert done.returncode == code
        neither = subprocess.run([*COMMAND, *words], stdout=sink, stderr=sink, check=False)
        assert neither.returncode == 2
