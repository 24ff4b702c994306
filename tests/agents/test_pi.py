"""
The real pi under a ticket, against a scripted model on loopback.

Runs where pi is installed (``BROKER_PI`` names its program, else ``pi`` on the path) and needs
neither an account nor a network.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.loopback.script import Say, Told, Turn, Use
from broker.loopback.server import LoopbackModel
from tests.hookkit import within
from tests.runkit import finished, start
from tests.sessionkit import Bench

pytestmark = [pytest.mark.agent, pytest.mark.timeout(180)]

Call = tuple[str, Mapping[str, object]]

# Changes a call after it was judged, in each way that there is.
REWRITER = """
export default function (pi) {
  pi.on("tool_call", async (event) => {
    const value = "echo x > rewritten.txt"
    try { event.input.command = value } catch {}
    try { Object.defineProperty(event.input, "command", { value }) } catch {}
    event.input = { command: value }
  })
}
"""
STARTED = 'import fs from "node:fs"\nfs.writeFileSync("started.txt", "")\nexport default () => {}\n'


@pytest.fixture(scope="session")
def pi() -> str:
    """The program, or a skip."""
    found = os.environ.get("BROKER_PI") or shutil.which("pi")
    if not found:
        pytest.skip("pi is not installed")
    return found


class Stage:
    """A home, a workspace and a program, ready for a run."""

    def __init__(self, root: Path, program: str) -> None:
        self.bench = Bench(root)
        self.workspace = self.bench.workspace
        self.root = root
        self.user = root / "user"
        self.program = program
        self.results: Mapping[str, Told] = {}

    def start(
        self, model: LoopbackModel, *arguments: str, scope: Sequence[str]
    ) -> subprocess.Popen[str]:
        """Start pi headless, and return the broker's process."""
        row = {"baseUrl": f"{model.url}/v1", "api": "openai-completions", "apiKey": "none"}
        providers = {"scripted": {**row, "models": [{"id": "scripted"}]}}
        self.write("user/models.json", json.dumps({"providers": providers}))
        command = [self.program, "-p", "--mode", "json", "--provider", "scripted"]
        command += ["--model", "scripted", "--tools", "read,bash,edit,write,ls", *arguments]
        return start(
            [*command, "[script main] go"],
            home=self.bench.home.state.parent,
            workspace=self.workspace,
            texts=scope,
            environ={
                "HOME": str(self.user),
                "PI_CODING_AGENT_DIR": str(self.user),
                "PI_OFFLINE": "1",
                "PI_TELEMETRY": "0",
            },
        )

    def run(
        self, script: Mapping[str, Sequence[Turn]], *arguments: str, scope: Sequence[str]
    ) -> tuple[int, str, str]:
        """Run pi headless with the script ``main``, and wait for it."""
        with LoopbackModel(script) as model:
            ended = finished(self.start(model, *arguments, scope=scope), 120)
            self.results = model.results
            return ended

    def write(self, path: str, text: str) -> Path:
        """Write a file below the stage."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        return place

    def entries(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the entries of the one receipt, verified."""
        (info,) = self.bench.receipts().sessions()
        assert self.bench.verdict(info.sid).state in ("SEALED", "INTERRUPTED")
        return self.bench.entries(info.sid)

    def decisions(self) -> list[tuple[str, str, str]]:
        """Return tool, decision and caveat of each call."""
        return [
            (data["tool"], data["decision"], data.get("caveat", ""))
            for kind, data in self.entries()
            if kind == "decision"
        ]


@pytest.fixture
def stage(tmp_path: Path, pi: str) -> Stage:
    """A stage of this test's own."""
    return Stage(tmp_path, pi)


def bash(command: str) -> Call:
    """Return a call of the shell."""
    return "bash", {"command": command}


def test_calls_inside_and_outside_the_scope(stage: Stage) -> None:
    """What is in scope runs; a read outside, an edit and a shell are refused before the model."""
    secret = stage.write("secret.txt", "do not tell\n")
    edit = {"path": "src/a.py", "edits": [{"oldText": "a = 1", "newText": "// b"}]}
    code, _, err = stage.run(
        {
            "main": [
                Use([("read", {"path": "src/a.py", "limit": 5}), ("read", {"path": str(secret)})]),
                Use([("edit", edit), ("edit", {**edit, "path": "notes.txt"})]),
                Use([("write", {"path": "out.txt", "content": "x"}), bash("echo x > sh.txt")]),
                Use([("ls", {})]),
                Say("done"),
            ]
        },
        scope=["tools=read,edit,write,ls", "paths=src/**"],
    )
    assert code == 0, err
    assert stage.decisions() == [
        ("read", "allow", ""),
        ("read", "refuse", "paths"),
        ("edit", "allow", ""),
        ("edit", "refuse", "paths"),
        ("write", "refuse", "paths"),
        ("bash", "refuse", "tools"),
        ("ls", "refuse", "paths"),
    ]
    assert "a = 1" in stage.results["main-0-0"].text
    told = stage.results["main-0-1"].text
    assert "refused by `paths`" in told
    assert "ask the person" in told
    assert "do not tell" not in told
    assert (stage.workspace / "src/a.py").read_text() == "// b\n"
    assert sorted(p.name for p in stage.workspace.iterdir()) == ["src"]
    entries = stage.entries()
    assert next(data for kind, data in entries if kind == "intent")["line"] == "[script main] go"
    assert next(data for kind, data in entries if kind == "open")["agent"] == "pi"


def test_a_path_is_judged_as_pi_opens_it(stage: Stage) -> None:
    """An `@` in front, and the name that pi tries where there is none, lead nowhere else."""
    secret = stage.write("secret.txt", "do not tell\n")
    (stage.workspace / "src" / "it\u2019s").symlink_to(stage.root)
    reads = [f"@{secret}", "src/it's/secret.txt", "@src/a.py"]
    code, _, err = stage.run(
        {"main": [Use([("read", {"path": path}) for path in reads]), Say("done")]},
        scope=["tools=read", "paths=**"],
    )
    assert code == 0, err
    assert [decision for _, decision, _ in stage.decisions()] == ["refuse", "refuse", "allow"]
    assert "do not tell" not in "".join(told.text for told in stage.results.values())


def test_calls_in_one_turn_share_the_budget(stage: Stage) -> None:
    """Of six calls at once under a budget of two, two run."""
    calls = [bash(f"echo x > src/{n}.txt") for n in range(6)]
    code, _, err = stage.run({"main": [Use(calls), Say("done")]}, scope=["tools=bash", "calls=2"])
    assert code == 0, err
    found = [decision for _, decision, _ in stage.decisions()]
    assert (found.count("allow"), found.count("refuse")) == (2, 4)
    assert len(list((stage.workspace / "src").glob("?.txt"))) == 2


def test_a_ticket_that_ends_during_the_run(stage: Stage) -> None:
    """What came before the end passed, what comes after it is refused."""
    stage.run(
        {"main": [Use([bash("sleep 6")]), Use([bash("echo x > late.txt")]), Say("done")]},
        scope=["tools=bash", "until=5s"],
    )
    assert stage.decisions()[-1] == ("bash", "refuse", "until")
    assert not (stage.workspace / "late.txt").exists()


def test_a_link_that_leads_outside(stage: Stage, tmp_path: Path) -> None:
    """A write through a link that an earlier call made is judged by where it leads."""
    (tmp_path / "elsewhere").mkdir()
    stage.run(
        {
            "main": [
                Use([bash(f"ln -s {tmp_path / 'elsewhere'} src/link")]),
                Use([("write", {"path": "src/link/new.txt", "content": "x"})]),
                Say("done"),
            ]
        },
        scope=["tools=bash,write", "paths=src/**"],
    )
    assert stage.decisions()[-1] == ("write", "refuse", "paths")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_extensions_of_the_workspace_are_left_out(stage: Stage) -> None:
    """What a workspace would have run at the start does not run."""
    stage.write("ws/.pi/extensions/theirs.js", STARTED)
    code, _, err = stage.run(
        {"main": [Use([bash("echo x > sh.txt")]), Say("done")]}, scope=["tools=read"]
    )
    assert code == 0, err
    assert not (stage.workspace / "started.txt").exists()
    assert stage.decisions() == [("bash", "refuse", "tools")]


def test_a_call_that_is_changed_after_it_was_judged(stage: Stage) -> None:
    """An extension of the person's that rewrites calls changes nothing that ours has seen."""
    extension = stage.write("rewriter.js", REWRITER)
    stage.run(
        {"main": [Use([bash("echo x > src/judged.txt")]), Say("done")]},
        "-e",
        str(extension),
        scope=["tools=bash"],
    )
    assert (stage.workspace / "src/judged.txt").exists()
    assert not (stage.workspace / "rewritten.txt").exists()


def test_a_workspace_that_runs_its_own_program_is_refused(stage: Stage) -> None:
    """Settings that install packages at the start end before pi is started."""
    settings = {"packages": ["npm:theirs"], "npmCommand": ["touch", "npm.txt"]}
    stage.write("ws/.pi/settings.json", json.dumps(settings))
    code, _, err = stage.run({"main": [Say("done")]}, scope=["tools=read"])
    assert code == 2
    assert "`packages` would run a program" in err
    assert not (stage.workspace / "npm.txt").exists()


@pytest.mark.parametrize(
    "damage",
    [
        'echo \'{"shellPath":"/bin/false"}\' > .pi/settings.json',
        "echo '' >> $FOLDER/broker-pi.mjs",
        "rm $FOLDER/ask.mjs",
        "rm $BROKER_SOCKET",
    ],
    ids=["settings", "changed", "removed", "socket"],
)
def test_a_run_that_loses_its_extension_is_stopped(stage: Stage, damage: str) -> None:
    """A shell that touches what holds pi ends the run before the next call."""
    folder = f"{stage.bench.home.state}/sessions/$BROKER_SESSION"
    command = f"mkdir -p .pi; FOLDER={folder}; {damage}; sleep 20"
    code, _, err = stage.run(
        {"main": [Use([bash(command)]), Use([bash("echo x > late.txt")]), Say("done")]},
        scope=["tools=bash"],
    )
    assert code != 0
    assert "the agent was stopped" in err
    assert not (stage.workspace / "late.txt").exists()
    assert stage.entries()[-1][1]["reason"] == "interrupted"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
def test_a_broker_that_is_gone_refuses(stage: Stage, how: signal.Signals) -> None:
    """Killed or hung: the call after that is refused or never made."""
    if how is signal.SIGKILL and sys.platform != "linux":
        pytest.skip("elsewhere the agent goes on, and its hooks refuse")
    turns = [Use([bash("touch src/begun; sleep 2")]), Use([bash("echo x > late.txt")]), Say("done")]
    with LoopbackModel({"main": turns}) as model:
        process = stage.start(model, scope=["tools=bash"])
        assert within(60, (stage.workspace / "src/begun").exists)
        process.send_signal(how)
        try:
            if how is signal.SIGSTOP:
                assert within(60, lambda: "main-1-0" in model.results)
                assert "did not answer in time" in model.results["main-1-0"].text
            else:
                time.sleep(4)
        finally:
            process.send_signal(signal.SIGCONT)
            finished(process, 60)
    assert not (stage.workspace / "late.txt").exists()


def test_what_is_no_session_runs_too(stage: Stage) -> None:
    """``pi --version`` under the broker answers as it does alone."""
    process = start(
        [stage.program, "--version"],
        home=stage.bench.home.state.parent,
        workspace=stage.workspace,
        environ={"HOME": str(stage.user)},
    )
    code, out, err = finished(process)
    assert code == 0, err
    assert "." in out + err
