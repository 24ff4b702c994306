"""Hooks of a workspace: read without being executed, executed only as they were trusted."""

from __future__ import annotations

import os
from json import dumps
from pathlib import Path

import pytest

from broker.capabilities.clock import SystemClock
from broker.capabilities.fs import Folder, SystemFiles
from broker.capabilities.memory import MemoryFiles
from broker.capabilities.process import ScriptedProcesses, SystemProcesses
from broker.capabilities.terminal import FakeTerminal
from broker.errors import ConfigError
from broker.harness.files import ToolError
from broker.harness.hooks import HookStop, run_hooks
from broker.harness.items import HookedCall
from broker.harness.projecthooks import PLACE, ProjectHooks, project_hooks, trusted_hooks
from broker.harness.trust import Trust
from broker.harness.workers import Workers

HOOKS = """
[[hook]]
name = "check"
command = ["scripts/check", "--fast"]
"""


def workspace(tmp_path: Path, script: str = "exit 0") -> Folder:
    """A real workspace that brings a hook along."""
    (tmp_path / ".broker").mkdir()
    (tmp_path / "scripts").mkdir()
    (tmp_path / PLACE).write_text(HOOKS)
    check = tmp_path / "scripts/check"
    check.write_text(f"#!/bin/sh\n{script}\n")
    check.chmod(0o755)
    return SystemFiles().below(os.path.realpath(tmp_path))


def read(folder: Folder) -> ProjectHooks:
    """Read the hooks of a workspace."""
    found = project_hooks(folder, SystemProcesses())
    assert found is not None
    return found


def asked(found: ProjectHooks) -> HookStop | None:
    """Ask the hooks about a call."""
    call = HookedCall("read", "c1", "main", {"path": "a"})
    return run_hooks(found.hooks, call, SystemClock(), Workers())


def test_reading_executes_nothing(tmp_path: Path) -> None:
    """What the workspace brings is listed with its files, and its script has not run."""
    folder = workspace(tmp_path, "touch ran")
    found = read(folder)
    assert [hook.name for hook in found.hooks] == ["check"]
    assert found.commands == ("scripts/check --fast",)
    assert sorted(found.executables.files) == [PLACE, "scripts/check"]
    assert not (tmp_path / "ran").exists()
    assert asked(found) is None
    assert (tmp_path / "ran").exists()


def test_without_a_file_there_is_none(tmp_path: Path) -> None:
    """A workspace that brings nothing is the usual case."""
    assert project_hooks(SystemFiles().below(str(tmp_path)), ScriptedProcesses()) is None


def test_a_hook_s_no_stops_the_call(tmp_path: Path) -> None:
    """A command that ends badly vetoes, with what it wrote."""
    stop = asked(read(workspace(tmp_path, "echo not today; exit 3")))
    assert stop == HookStop("blocked", "check", "not today")


@pytest.mark.parametrize("place", [PLACE, "scripts/check"])
def test_one_changed_byte_stops_the_call(tmp_path: Path, place: str) -> None:
    """What was changed since it was read is not executed, also within the same run."""
    folder = workspace(tmp_path)
    found = read(folder)
    assert asked(found) is None
    with (tmp_path / place).open("a") as file:
        file.write("touch ran\n")
    stop = asked(found)
    assert stop is not None
    assert (stop.how, f"`{place}` was changed" in stop.reason) == ("hook_failed", True)
    assert not (tmp_path / "ran").exists()
    (tmp_path / place).unlink()
    assert asked(found) is not None


@pytest.mark.parametrize("place", [PLACE, "scripts/check"])
def test_a_change_is_asked_about_again(tmp_path: Path, place: str) -> None:
    """A yes holds for what was there, and a changed tool file needs another one."""
    folder = workspace(tmp_path)
    trust = Trust(MemoryFiles().below("/state/trusted"))
    yes = FakeTerminal(["y"])
    assert len(trusted_hooks(read(folder), trust, yes, accept=False)) == 1
    assert "scripts/check --fast" in yes.shown
    again = FakeTerminal([])
    assert len(trusted_hooks(read(folder), trust, again, accept=False)) == 1
    assert again.shown == ""
    with (tmp_path / place).open("a") as file:
        file.write("# more\n")
    assert trusted_hooks(read(folder), trust, FakeTerminal(["n"]), accept=False) == ()
    assert len(trusted_hooks(read(folder), trust, FakeTerminal(["yes"]), accept=False)) == 1


@pytest.mark.parametrize(
    ("typed", "tty", "accept", "run"),
    [
        (["y"], True, False, True),
        (["n"], True, False, False),
        ([], True, False, False),
        (["y"], False, False, False),
        ([], False, True, True),
    ],
)
def test_nobody_s_hooks_do_not_run(
    tmp_path: Path, typed: list[str], tty: bool, accept: bool, run: bool
) -> None:
    """Only a yes at a terminal, or one typed beforehand, lets them run; else it is said."""
    terminal = FakeTerminal(typed, tty=tty)
    trust = Trust(MemoryFiles().below("/state/trusted"))
    hooks = trusted_hooks(read(workspace(tmp_path)), trust, terminal, accept=accept)
    assert bool(hooks) == run
    assert ("do not run" in terminal.errors) == (not run)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[hook", "not understood"),
        ("x = 1", "nothing else"),
        ("hook = 1", "nothing else"),
        ("[[hook]]", "needs a `name`"),
        ("hook = [1]", "write `[[hook]]`"),
        ('[[hook]]\nname = "a"\ncmd = ["x"]', "no setting `cmd`"),
        ('[[hook]]\nname = "a"\nwhen = "never"\ncommand = ["x"]', "`when` is"),
        ('[[hook]]\nname = "a"', "list of words"),
        ('[[hook]]\nname = "a"\ncommand = "x"', "list of words"),
        ('[[hook]]\nname = "a"\ncommand = []', "list of words"),
        ('[[hook]]\nname = "a"\ncommand = ["x"]\ntimeout_s = 0', "seconds"),
        ('[[hook]]\nname = "a"\ncommand = ["x"]\ntimeout_s = true', "seconds"),
        ('[[hook]]\nname = "a"\ncommand = ["../x"]', "without `..`"),
        ('[[hook]]\nname = "a"\ncommand = ["link"]', "cannot be read"),
        ("[[hook]]\n" * 65, "at most"),
    ],
)
def test_what_is_not_understood_is_an_error(text: str, said: str) -> None:
    """A misspelt file is never no hook."""
    files = MemoryFiles({f"/ws/{PLACE}": text.encode()})
    files.link("/ws/link", "elsewhere")
    with pytest.raises(ConfigError) as caught:
        project_hooks(files.below("/ws"), ScriptedProcesses())
    assert said in caught.value.message


def test_words_that_are_no_files_of_the_workspace_are_left_alone() -> None:
    """Commands of the system, options, folders and texts are not part of what is trusted."""
    words = ["sh", "/bin/sh", "-c", "", "/ws/in", "f", ". ", f"{'x' * 999}; y"]
    text = f'[[hook]]\nname = "a"\ncommand = {dumps(words)}'
    files = MemoryFiles({f"/ws/{PLACE}": text.encode(), "/ws/in": b"", "/ws/f/g": b""})
    found = project_hooks(files.below("/ws"), ScriptedProcesses())
    assert found is not None
    assert sorted(found.executables.files) == [PLACE, "in"]


SPELLINGS = [
    '["scripts//check"]',
    '["././scripts/check"]',
    '["ROOT//scripts/./check"]',
    '["//ROOT/scripts/check"]',
    '["sh", "-c", "cd . && sh scripts/check; true"]',
    '["env", "--split-string=scripts/check"]',
]


def spelled(tmp_path: Path, command: str) -> Folder:
    """A workspace with a hook whose command is spelled like this."""
    folder = workspace(tmp_path)
    command = command.replace("ROOT", folder.path)
    (tmp_path / PLACE).write_text(f'[[hook]]\nname = "check"\ncommand = {command}\n')
    return folder


@pytest.mark.parametrize("command", SPELLINGS)
def test_a_script_is_held_however_it_is_spelled(tmp_path: Path, command: str) -> None:
    """Another spelling of a path, or a shell's line around it, does not let a change through."""
    found = read(spelled(tmp_path, command))
    assert sorted(found.executables.files) == [PLACE, "scripts/check"]
    (tmp_path / "scripts/check").write_text("#!/bin/sh\ntouch ran\n")
    assert asked(found) is not None
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "command", ['["scripts/late"]', '["sh", "late"]', '["sh", "-c", "./late"]']
)
def test_what_comes_after_the_yes_is_not_executed(tmp_path: Path, command: str) -> None:
    """A command may name a file that is not there; who puts one there has not been trusted."""
    folder = spelled(tmp_path, command)
    trust = Trust(MemoryFiles().below("/state/trusted"))
    (hook,) = trusted_hooks(read(folder), trust, FakeTerminal([]), accept=True)
    for place in ("late", "scripts/late"):
        (tmp_path / place).write_text("#!/bin/sh\ntouch ran\n")
        (tmp_path / place).chmod(0o755)
    with pytest.raises(ToolError, match="was changed since it was trusted"):
        hook.run(HookedCall("read", "c1", "main", {}))
    assert not (tmp_path / "ran").exists()
    assert not trust.holds(read(folder).executables)


def test_a_script_behind_a_link_is_no_hook(tmp_path: Path) -> None:
    """A link on the way would be followed when the command runs, and not when it is hashed."""
    folder = spelled(tmp_path, '["link/check"]')
    (tmp_path / "link").symlink_to("scripts")
    with pytest.raises(ConfigError, match="a link"):
        read(folder)
    (tmp_path / "link").unlink()
    found = read(folder)
    (tmp_path / "link").symlink_to("scripts")
    assert asked(found) is not None


def test_a_hook_gets_a_small_environment() -> None:
    """A key of the caller does not reach what the workspace brings."""
    text = '[[hook]]\nname = "a"\ncommand = ["x"]'
    processes = ScriptedProcesses([], environ={"PATH": "/bin", "API_KEY": "k"})
    found = project_hooks(MemoryFiles({f"/ws/{PLACE}": text.encode()}).below("/ws"), processes)
    assert found is not None
    assert asked(found) is not None
    assert (processes.ran[0].environ, processes.ran[0].cwd) == ({"PATH": "/bin"}, "/ws")
