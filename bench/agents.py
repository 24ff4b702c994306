"""
Measure what the broker costs each agent per tool call, and print a table.

Every installed agent runs against the scripted model on loopback, as for its canary. One figure is
the time between the end of a scripted answer and the agent's next request, so it is the whole way
of one call: the agent, its hook, the session with its durable receipt, and the tool itself. Four
arms take turns in every round, and differ in nothing but the command of the hooks, before a call
and after it:

    none     no hook
    true     /bin/true, the least a hook can be
    python   an interpreter that starts and leaves, the least that ours could be
    ours     the hook of a run, under a scope that permits the calls

Agents that are held by a plugin have no command: there `true` is a plugin that does nothing, and
`python` is left out.

What `ours` takes inside the broker, from a payload to its answer with the receipt on disk, stands
beside it: the rest of its row is the agent, the shell and the start of an interpreter.

    python bench/agents.py                    every installed agent, five rounds (ten minutes)
    python bench/agents.py claude qwen        these
    python bench/agents.py --quantile 0.1     where other work runs on the machine: the quick calls
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

from broker.agents.adapter import PROGRAMS, Bait, Canary, Launch, adapter_for
from broker.agents.client import interpreter
from broker.agents.examining import examine, known, version_of
from broker.agents.plugin import Plugged
from broker.home import Home
from broker.launch import TURN_S
from broker.loopback.script import Say, Text, Use, place
from broker.loopback.server import LoopbackModel
from broker.service.client import SESSION_VARIABLE, SOCKET_VARIABLE
from broker.service.protocol import HookRefusal
from broker.service.server import Hook, Server
from broker.session import Session

ARMS = ("none", "true", "python", "ours")
TARGET_MS = 5.0
HEADINGS = (
    *("program", "version", "what stands before its calls", "what was seen", "in s"),
    *("no hook, ms", "`/bin/true`", "`python3`", "ours"),
    *("inside the broker", "ours over a hook alike", "ours over `/bin/true`"),
)
CANARY_S = "canary"  # its times are in seconds
INSIDE = "inside"
PATIENCE_S = 240
SETTLING = 2  # the first calls of a process are not counted
PROMPT = "[script bench] go on"
IDLE = {
    "broker-cline.js": "export default { name: 'x', manifest: { capabilities: ['hooks'] }, "
    "hooks: { beforeTool: () => ({ policy: { autoApprove: true } }) } }",
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


class Watched:
    """A hook of ours, and how long each call took in it that it let through, in milliseconds."""

    def __init__(self, hook: Hook, times_ms: list[float]) -> None:
        self._hook = hook
        self._times_ms = times_ms

    def answer(self, payload: bytes, session: Session) -> HookRefusal | None:
        """Answer as the hook does."""
        before, began = session.allowed, time.perf_counter()
        found = self._hook.answer(payload, session)
        if session.allowed > before:
            self._times_ms.append((time.perf_counter() - began) * 1000)
        return found

    def refusal(self, reason: str) -> HookRefusal:
        """Refuse as the hook does."""
        return self._hook.refusal(reason)


def call(canary: Canary, workspace: Path, number: int) -> tuple[str, Mapping[str, object] | Text]:
    """Return one cheap call, each a little different, since agents look for loops."""
    tool, given = canary.call
    if isinstance(given, Text):
        return "exec_command", {"cmd": f"true {number}"}
    ((name, before),) = given.items()
    file = workspace / f"f{number}.txt"
    file.write_text("x\n")
    return tool, {name: [{"path": str(file)}] if isinstance(before, list) else str(file)}


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
            patch(room, "hook_command", lambda *_, **__: commands[name])
            patch(room, "telling_command", lambda *_, **__: commands[name])
        if name == "none":
            patch(room, "with_hooks", lambda settings, *_: dict(settings))
            patch(room, "hooks_file", lambda *_: {"version": 1, "hooks": {}})
        if name != "ours":

            def idle(self: Plugged, package: str, plugin: str, folder: Path) -> Path:
                (folder / plugin).write_text(IDLE[plugin])
                return folder / plugin

            patch(Plugged, "put", idle)
        yield


def once(
    agent: str, program: str, name: str, calls: int, inside: list[float] | None = None
) -> list[float]:
    """
    Run an agent once, and return the time of each of its calls, in milliseconds; ``inside`` gets
    what each took in the broker.
    """
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
        times: list[float] = [] if inside is None else inside
        hooks = {name: Watched(hook, times) for name, hook in adapter.hooks().items()}
        server = Server(session, launch.socket, hooks)
        server.bind()
        process = started(canary, prepared.environ, launch, session, name)
        sys.setswitchinterval(TURN_S)  # as in a run
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


def measure(
    agent: str, program: str, rounds: int, calls: int
) -> tuple[str, dict[str, list[float]]]:
    """
    Return what canaries showed, the times of a call in each arm, in milliseconds, and those of
    canaries, in seconds.
    """
    shown = ""
    room = importlib.import_module(PROGRAMS[agent].partition(":")[0])
    in_process = hasattr(room, "Plugged")
    arms = [name for name in ARMS if not in_process or name in ("true", "ours")]
    found: dict[str, list[float]] = {CANARY_S: [], INSIDE: [], **{name: [] for name in arms}}
    for round_ in range(rounds):
        for name in arms if round_ % 2 == 0 else reversed(arms):
            inside = found[INSIDE] if name == "ours" else None
            found[name] += once(agent, program, name, calls, inside)
            print(f"  {agent} {name}: {statistics.median(found[name]):.1f} ms", file=sys.stderr)
        tried = examine(program, os.environ)
        if tried.took_s is None:
            sys.exit(f"{agent}: {tried.text}")
        shown = tried.text
        found[CANARY_S].append(tried.took_s)
    return shown, found


class Row:
    """What was measured of one agent, as a row of the table."""

    def __init__(
        self, agent: str, version: str, shown: str, found: Mapping[str, list[float]]
    ) -> None:
        self.agent, self.version, self.shown, self.found = agent, version, shown, found
        self.point = adapter_for([agent]).point
        self.idle = "python" if "python" in found else "true"  # started as ours is

    def at(self, arm_: str, quantile: float) -> float:
        """Return a quantile of one arm."""
        ordered = sorted(self.found[arm_])
        return ordered[min(int(quantile * len(ordered)), len(ordered) - 1)]

    def over(self, arm_: str, quantile: float) -> float:
        """Return how much more ours takes than an arm."""
        return self.at("ours", quantile) - self.at(arm_, quantile)

    def text(self, quantile: float) -> str:
        """Return the row."""
        cells = [f"`{self.agent}`", self.version, self.point, self.shown]
        cells.append(f"{self.at(CANARY_S, 0.5):.1f}")
        cells += [f"{self.at(n, quantile):.0f}" if n in self.found else "-" for n in ARMS]
        cells.append(f"{self.at(INSIDE, quantile):.1f}" if self.found.get(INSIDE) else "-")
        cells += [f"{self.over(self.idle, quantile):+.1f}", f"{self.over('true', quantile):+.1f}"]
        return f"| {' | '.join(cells)} |"


def table(rows: list[Row], quantile: float) -> int:
    """Print the table and who is over the target; 1 when somebody is."""
    print(f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}")
    for row in rows:
        print(row.text(quantile))
    over = [row.agent for row in rows if row.over(row.idle, quantile) > TARGET_MS]
    if over:
        print(f"more than {TARGET_MS:.0f} ms over a hook that does nothing: {', '.join(over)}")
    return int(bool(over))


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("agents", nargs="*", metavar="AGENT", help="such as claude")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=12)
    parser.add_argument("--quantile", type=float, default=0.5, help="0.5 is the median")
    parser.add_argument("--keep", metavar="FILE", help="also keep every time there")
    parser.add_argument("--read", metavar="FILE", help="print what was kept, and measure nothing")
    asked = parser.parse_args()
    if asked.read:
        kept = json.loads(Path(asked.read).read_text())
        return table([Row(*row) for row in kept], asked.quantile)
    rows = []
    for agent in asked.agents or known():
        program = shutil.which(agent)
        if program is None:
            print(f"  {agent} is not installed", file=sys.stderr)
            continue
        version = adapter_for([agent]).tested
        told = version_of(program, os.environ)
        shown, found = measure(agent, program, asked.rounds, asked.calls)
        rows.append(Row(agent, version if version in told else told, shown, found))
        if asked.keep:
            kept = [(row.agent, row.version, row.shown, row.found) for row in rows]
            Path(asked.keep).write_text(json.dumps(kept))
    return table(rows, asked.quantile)


if __name__ == "__main__":
    sys.exit(main())
