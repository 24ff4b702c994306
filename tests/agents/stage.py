"""What the tests of every real agent share: a home, a workspace, a program, and a run of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.loopback.script import Say, Text, Told, Turn, Use
from broker.loopback.server import LoopbackModel
from broker.service.client import SOCKET_VARIABLE
from tests.hookkit import within
from tests.runkit import finished, start
from tests.sessionkit import Bench

Script = Mapping[str, Sequence[Turn]]
Call = tuple[str, Mapping[str, object] | Text]


PATIENCE_S = 240  # a machine may be busy, and an agent install something first

# What an agent is called, where it is not as its program is.
TITLES = {
    "claude": "Claude Code",
    "cline": "Cline CLI",
    "codex": "Codex",
    "copilot": "Copilot CLI",
    "gemini": "Gemini CLI",
    "qwen": "Qwen Code",
}


def installed(variable: str, name: str) -> str:
    """Return the program that a variable names, or that is on the path; else skip the test."""
    found = os.environ.get(variable) or shutil.which(name)
    if not found:
        pytest.skip(f"{TITLES.get(name, name)} is not installed")
    return found


class Stage(ABC):
    """
    A home, a workspace and a program, ready for a run.

    An agent's own stage says how its program is started (``command``), in which environment
    (``environ``), and what of its configuration a run needs (``ready``).
    """

    def __init__(self, root: Path, program: str) -> None:
        self.root = root
        self.bench = Bench(root)
        self.workspace = self.bench.workspace
        self.user = root / "user"
        self.program = program
        self.results: Mapping[str, Told] = {}
        self.asked: list[str] = []
        self.user.mkdir()

    @abstractmethod
    def command(self, model: LoopbackModel, arguments: Sequence[str], **more: Any) -> list[str]:
        """Return the command of a headless run with the script ``main``."""

    @abstractmethod
    def environ(self, model: LoopbackModel, **more: Any) -> dict[str, str]:
        """Return what the agent's environment says beside this process's own."""

    def ready(self, model: LoopbackModel) -> None:  # noqa: B027 - most need nothing
        """Write what a run needs of the agent's configuration."""

    def start(
        self,
        model: LoopbackModel,
        *arguments: str,
        scope: Sequence[str],
        record: bool | None = None,
        **more: Any,
    ) -> subprocess.Popen[str]:
        """Start the agent headless, and return the broker's process."""
        self.ready(model)
        return start(
            self.command(model, arguments, **more),
            home=self.bench.home.state.parent,
            workspace=self.workspace,
            texts=scope,
            environ={"HOME": str(self.user), **self.environ(model, **more)},
            record=record,
        )

    def run(
        self, script: Script, *arguments: str, scope: Sequence[str], **more: Any
    ) -> tuple[int, str, str]:
        """Run the agent headless with the script ``main``, and wait for it."""
        with LoopbackModel(script) as model:
            ended = finished(self.start(model, *arguments, scope=scope, **more), PATIENCE_S)
            self.results, self.asked = model.results, model.asked
            return ended

    def write(self, path: Path | str, content: object) -> Path:
        """Write a file, an object as JSON; a path that is not absolute is below the stage."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        place.write_text(text, encoding="utf-8")
        return place

    def file(self, name: str) -> str:
        """Return the absolute path of a file in the workspace."""
        return str(self.workspace / name)

    def entries(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the entries of the one receipt, verified."""
        (info,) = self.bench.receipts().sessions()
        assert self.bench.verdict(info.sid).state in ("SEALED", "INTERRUPTED")
        return self.bench.entries(info.sid)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the data of all entries of a kind."""
        return [data for found, data in self.entries() if found == kind]

    def decisions(self, *more: str) -> list[tuple[str, ...]]:
        """Return tool, decision and caveat of each call, and what else is asked for."""
        return [
            (data["tool"], data["decision"], data.get("caveat", ""), *(data[k] for k in more))
            for data in self.of("decision")
        ]

    def only_look(self) -> None:
        """Check that of the server's two tools the one in scope ran, and the other did not."""
        assert ("mcp__notes__look", "allow", "") in self.decisions()
        assert not any("drop" in row[0] and row[1] == "allow" for row in self.decisions())
        told = "".join(result.text for result in self.results.values())
        assert "look was called" in told
        assert "drop was called" not in told

    def told(self, call: str) -> str:
        """Return what the model was told of a call."""
        return self.results[call].text


def broker_gone(stage: Stage, how: str, shell: Callable[[str], Call], scope: Sequence[str]) -> None:
    """
    Take the broker away in the midst of a run, and check that no call runs after that.

    Args:
        stage: where the agent runs.
        how: ``killed``, ``stopped`` (hung) or ``socket``, which is removed.
        shell: makes a call of the agent's shell.
        scope: a scope that names the shell.
    """
    first = stage.workspace / "src/first.txt"
    # Where the runtime folder's name is too long for a socket, a run makes a folder of its own.
    turns = [shell(f"echo ${SOCKET_VARIABLE} > src/first.txt; sleep 3"), shell("echo x > late.txt")]
    with LoopbackModel({"main": [*(Use([turn]) for turn in turns), Say("done")]}) as model:
        # A broker that records hangs with the model's answers too: then no call is asked for.
        process = stage.start(model, scope=scope, record=False if how == "stopped" else None)
        assert within(120, lambda: first.exists() and first.read_text().endswith("\n"))
        if how == "socket":
            Path(first.read_text().strip()).unlink()
        else:
            process.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        try:
            if how == "stopped":
                assert within(120, lambda: "main-1-0" in model.results)
                assert "did not answer in time" in model.results["main-1-0"].text
            else:
                process.wait(120)
                time.sleep(6)  # what of the agent outlives it goes on, and holds its streams
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
                finished(process, 60)
    assert not (stage.workspace / "late.txt").exists()
