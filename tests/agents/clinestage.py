"""A home, a workspace and the real Cline CLI, ready for a run against a scripted model."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.loopback.script import Told, Turn
from broker.loopback.server import LoopbackModel
from tests.runkit import finished, start
from tests.sessionkit import Bench
from tests.unit.test_cli_project import at_terminal

QUIET = {"CLINE_TELEMETRY_DISABLED": "1", "DO_NOT_TRACK": "1", "CLINE_NO_AUTO_UPDATE": "1"}
MODEL = ("-P", "openai-compatible", "-m", "fake-model")


@pytest.fixture(scope="session")
def cline() -> str:
    """The program, or a skip."""
    found = os.environ.get("BROKER_CLINE") or shutil.which("cline")
    if not found:
        pytest.skip("Cline CLI is not installed")
    if shutil.which("node") is None:
        pytest.skip("Cline CLI runs plugins with Node, and it is not installed")
    return found


class Stage:
    """One run's surroundings."""

    def __init__(self, root: Path, program: str) -> None:
        self.root = root
        self.bench = Bench(root)
        self.workspace = self.bench.workspace
        self.user = root / "user"
        self.own = self.user / ".cline"
        self.program = program
        self.results: Mapping[str, Told] = {}
        (self.own / "data/settings").mkdir(parents=True)

    def start(
        self, model: LoopbackModel, *arguments: str, scope: Sequence[str], **environ: str
    ) -> subprocess.Popen[str]:
        """Sign in to the model, start Cline headless, and return the broker's process."""
        self.sign_in(model)
        return start(
            [self.program, "--json", *MODEL, *arguments, "[script main] go"],
            home=self.bench.home.state.parent,
            workspace=self.workspace,
            texts=scope,
            environ={"HOME": str(self.user), **QUIET, **environ},
        )

    def sign_in(self, model: LoopbackModel) -> None:
        """Tell Cline of the model, as a person would."""
        subprocess.run(
            [
                self.program,
                "auth",
                "-p",
                MODEL[1],
                *MODEL[2:],
                "-k",
                "none",
                "-b",
                model.url + "/v1",
            ],
            env={"PATH": os.environ["PATH"], "HOME": str(self.user), **QUIET},
            cwd=self.user,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=60,
        )

    def run(
        self, script: Mapping[str, Sequence[Turn]], *arguments: str, **more: Any
    ) -> tuple[int, str, str]:
        """Run Cline headless with the script ``main``, and wait for it."""
        with LoopbackModel(script) as model:
            ended = finished(self.start(model, *arguments, **more), 120)
            self.results = model.results
            return ended

    def at_terminal(
        self, script: Mapping[str, Sequence[Turn]], scope: Sequence[str], **environ: str
    ) -> tuple[str, int]:
        """Run Cline once on a terminal of its own; return all that was shown, and the exit code."""
        texts = [word for text in scope for word in ("--scope", text)]
        with LoopbackModel(script) as model:
            self.sign_in(model)
            ended = at_terminal(
                *("run", *texts, "--workspace", str(self.workspace), "--"),
                *(self.program, *MODEL, "[script main] go"),
                answers=[],
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.user),
                    "BROKER_HOME": str(self.bench.home.state.parent),
                    "TERM": "xterm",
                    **QUIET,
                    **environ,
                },
            )
            self.results = model.results
            return ended

    def entries(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the entries of the one receipt, verified."""
        (info,) = self.bench.receipts().sessions()
        assert self.bench.verdict(info.sid).state in ("SEALED", "INTERRUPTED")
        return self.bench.entries(info.sid)

    def decisions(self, *more: str) -> list[tuple[str, ...]]:
        """Return tool, decision and caveat of each call, and what else is asked for."""
        return [
            (data["tool"], data["decision"], data.get("caveat", ""), *(data[k] for k in more))
            for kind, data in self.entries()
            if kind == "decision"
        ]

    def file(self, name: str) -> str:
        """Return the absolute path of a file in the workspace."""
        return str(self.workspace / name)


@pytest.fixture
def stage(tmp_path: Path, cline: str) -> Stage:
    """A stage of this test's own."""
    return Stage(tmp_path, cline)
