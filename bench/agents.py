"""
Measure what the broker costs each agent per tool call, and print the table of docs/agents.md.

Every installed agent runs against the scripted model on loopback, as for its canary. One figure is
the time between the end of a scripted answer and the agent's next request, so it is the whole way
of one call: the agent, its hook, the session with its durable receipt, and the tool itself. Four
arms take turns in every round, and differ in nothing but the command of the hook:

    none     no hook
    true     /bin/true, the least a hook can be
    python   an interpreter that starts and leaves, the least that ours could be
    ours     the hook of a run, under a scope that permits the calls

Agents that are held in their own process have no command: there `true` is a plugin that does
nothing, and `python` is left out.

    python bench/agents.py                    every installed agent, five rounds
    python bench/agents.py claude qwen        these
    python bench/agents.py --rounds 9 --calls 20
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from broker.agents.adapter import PROGRAMS, Adapter, Bait, Canary, Launch, adapter_for
from broker.agents.client import interpreter
from broker.agents.examining import known, version_of
from broker.agents.plugin import Plugged
from broker.home import Home
from broker.loopback.script import Say, Text, Use, place
from broker.loopback.server import LoopbackModel
from broker.service.client import SESSION_VARIABLE, SOCKET_VARIABLE
from broker.service.server import Server
from broker.session import Session

ARMS = ("none", "true", "python", "ours")
TARGET_MS = 5.0
HEADINGS = (
    *("program", "version", "what stands before its calls", "no hook, ms"),
    *("`/bin/true`", "`python3`", "ours", "ours over `python3`", "ours over `/bin/true`"),
)
PATIENCE_S = 240
SETTLING = 2  # the first calls of a process are not counted
PROMPT = "[script bench] go on"
IDLE = {
    "broker-pi.mjs": "export default async function () {}",
    "broker-opencode.mjs": "export const Broker = async () => "
    '({ config: async (config) => { delete config.permission["**"] } })',
}


class Timed(LoopbackModel):
    """The scripted model, with the time of each request and of each answer, by turn."""

    def __init__(self, script: Any) -> None:
        super().__init__(script)
        self.came_s: dict[int, float] = {}
        self.went_s: dict[int, float] = {}

    def answer(self, wire: Any, body: dict[str, Any], model: str) -> dict[str, Any]:
        """Answer, and note when it was asked and when it was done."""
        now = time.perf_counter()
        where = place(wire.read(body))
        if where.name == "bench" and wire.offers_tools(body):
            self.came_s.setdefault(where.turn, now)
        found = super().answer(wire, body, model)
        self.went_s[where.turn] = time.perf_counter()
        return found

    def gaps_ms(self) -> list[float]:
        """Return the time of each call."""
        turns = sorted(self.came_s)
        return [
            (self.came_s[turn] - self.went_s[turn - 1]) * 1000
            for turn in turns
            if turn - 1 in self.went_s and turn > SETTLING
        ]


def call(canary: Canary, workspace: Path, number: int) -> tuple[str, Mapping[str, object] | Text]:
    """Return one cheap call, each a little different, since agents look for loops."""
    tool, given = canary.call
    if isinstance(given, Text):
        return "exec_command", {"cmd": f"true {number}"}
    (name,) = given
    file = workspace / f"f{number}.txt"
    file.write_text("x\n")
    return tool, {name: str(file)}


@contextlib.contextmanager
def arm(name: str, agent: str) -> Iterator[None]:
    """Put another command, or another plugin, in the place of ours."""
    room = importlib.import_module(PROGRAMS[agent].partition(":")[0])
    commands = {
        "true": "/bin/true",
        "python": shlex.join([interpreter(), *["-I", "-S", "-c", "pass"]]),
    }
    with contextlib.ExitStack() as patches:

        def patch(holder: object, attribute: str, put: Callable[..., object]) -> None:
            if hasattr(holder, attribute):
                patches.enter_context(mock.patch.object(holder, attribute, put))

        if name in commands:
            patch(room, "hook_command", lambda *_: commands[name])
        if name == "none":
            patch(room, "with_hooks", lambda settings, *_: dict(settings))
            patch(room, "hooks_file", lambda _: {"version": 1, "hooks": {}})
        if name != "ours":

            def idle(self: Plugged, package: str, plugin: str, folder: Path) -> Path:
                (folder / plugin).write_text(IDLE[plugin])
                return folder / plugin

            patch(Plugged, "put", idle)
        yield


def once(agent: str, program: str, name: str, calls: int) -> list[float]:
    """Run an agent once, and return the time of each of its calls, in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="broker-bench-") as made, arm(name, agent):
        root = Path(os.path.realpath(made))
        home = Home(root / "state", root / "data", root / "config", root / "run")
        workspace = root / "workspace"
        for folder in (home.runtime, workspace):
            folder.mkdir(mode=0o700)
        adapter = adapter_for([program])
        environ = {**os.environ}
        session = Session.open((), workspace=workspace, home=home, agent=adapter.name)
        (session.folder / "canary").mkdir()
        model = Timed({})
        typed = (program, *adapter.trial)
        launch = Launch(typed, environ, workspace, session.folder, home.runtime / "s")
        prepared = adapter.prepare(launch)
        bait = Bait(session.folder / "canary/bait", model.url, PROMPT, "")
        canary = adapter.canary(launch, prepared, bait)
        assert canary is not None
        turns = [Use([call(canary, workspace, n)]) for n in range(calls + SETTLING)]
        model.script = {"bench": [*turns, Say("done")]}
        server = Server(session, launch.socket, adapter.hooks())
        server.bind()
        process = started(canary, prepared.environ, launch, session, name)
        server.start()
        model.start()
        try:
            process.wait(PATIENCE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            server.stop()
            model.close()
            session.seal()
        gaps = model.gaps_ms()
        if len(gaps) < calls or (name == "ours" and session.allowed < calls):
            sys.exit(f"{agent}, {name}: {len(gaps)} of {calls} calls, {session.allowed} decided")
        return gaps


def started(
    canary: Canary,
    prepared: Mapping[str, str],
    launch: Launch,
    session: Session,
    name: str,
) -> subprocess.Popen[bytes]:
    """Start an agent as for its canary."""
    command = list(canary.command)
    if name == "none":
        hooks = [at for at, word in enumerate(command) if word.startswith("hooks.")]
        command = [w for at, w in enumerate(command) if at not in hooks and at + 1 not in hooks]
    variables = {**launch.environ, **prepared, **canary.environ}
    variables |= {SOCKET_VARIABLE: str(launch.socket), SESSION_VARIABLE: session.sid}
    return subprocess.Popen(
        command,
        env={name: text for name, text in variables.items() if text is not None},
        cwd=launch.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def measure(agent: str, program: str, rounds: int, calls: int) -> dict[str, float]:
    """Return the median time of a call in each arm, in milliseconds."""
    adapter: Adapter = adapter_for([program])
    room = importlib.import_module(PROGRAMS[agent].partition(":")[0])
    in_process = not hasattr(room, "hook_command")
    arms = [name for name in ARMS if not in_process or name in ("true", "ours")]
    found: dict[str, list[float]] = {name: [] for name in arms}
    for round_ in range(rounds):
        for name in arms if round_ % 2 == 0 else reversed(arms):
            found[name] += once(agent, program, name, calls)
            median = statistics.median(found[name])
            print(f"  {adapter.name} {name}: {median:.1f} ms", file=sys.stderr)
    return {name: statistics.median(gaps) for name, gaps in found.items()}


def cell(found: Mapping[str, float], name: str, base: str | None = None) -> str:
    """Return a figure, or how much it is more than another."""
    if name not in found or (base is not None and base not in found):
        return "-"
    value = found[name] - (found[base] if base else 0)
    return f"{value:+.1f}" if base else f"{value:.0f}"


def like(found: Mapping[str, float]) -> str:
    """Return the hook that does nothing and is started as ours is."""
    return "python" if "python" in found else "true"


def main() -> int:
    """Measure, and print the table; 1 when an agent is over its target."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("agents", nargs="*", metavar="AGENT", help="such as claude")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=12)
    parser.add_argument("--json", metavar="FILE", help="also write the medians there")
    asked = parser.parse_args()
    rows: list[str] = []
    kept: dict[str, dict[str, float]] = {}
    over = []
    for agent in asked.agents or known():
        program = shutil.which(agent)
        if program is None:
            print(f"  {agent} is not installed", file=sys.stderr)
            continue
        name = Path(agent).name
        found = kept[name] = measure(name, program, asked.rounds, asked.calls)
        adapter = adapter_for([program])
        version = version_of(program, os.environ)
        cells = [f"`{name}`", version, adapter.point, cell(found, "none")]
        cells += [cell(found, arm_, "none") for arm_ in ("true", "python", "ours")]
        cells += [cell(found, "ours", "python"), cell(found, "ours", "true")]
        rows.append(f"| {' | '.join(cells)} |")
        if found["ours"] > found[like(found)] + TARGET_MS:
            over.append(name)
    print(f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}")
    print("\n".join(rows))
    if over:
        print(f"over {TARGET_MS:.0f} ms more than a hook that does nothing: {', '.join(over)}")
    if asked.json:
        Path(asked.json).write_text(json.dumps(kept, indent=1) + "\n")
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
