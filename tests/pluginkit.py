"""Our plugins under Node, without their agents: a stand-in for each agent's side."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.agents.hooks import AgentHook
from broker.agents.pi.hook import PiDialect
from broker.agents.plugin import Plugged
from broker.service.protocol import ALLOW, frame

# Loads the plugin as its agent does, makes the calls, and tells what came of each: null, or what
# was thrown. `change` is what another plugin tries afterwards.
_PI = """
const [plugin, calls] = [process.argv[2], JSON.parse(process.argv[3])]
const told = []
let judge
try {
  const on = (event, handler) => { if (event === "tool_call") judge = handler }
  await (await import(plugin)).default({ on })
  for (const call of calls) {
    try {
      await judge(call, { cwd: call.cwd })
      told.push(null)
    } catch (error) { told.push(error.message) }
    try { call.input.path = "/etc/passwd" } catch {}
    try { call.input.deep.path = "/etc/passwd" } catch {}
  }
} catch (error) { told.push("start: " + error.message) }
console.log(JSON.stringify({ told, calls }))
"""
_OPENCODE = """
const [plugin, calls] = [process.argv[2], JSON.parse(process.argv[3])]
const sessions = JSON.parse(process.argv[4])
const told = []
const config = { mcp: { notes: {} }, permission: { bash: "allow", "**": "deny" } }
const never = new Promise(() => {})
const found = (id) => (sessions[id] === "never" ? never : { data: sessions[id] })
const session = {
  get: async ({ path }) => found(path.id),
  messages: async ({ path }) => ({ data: sessions[path.id].messages ?? [] }),
}
const client = { session }
const hooks = await (await import(plugin)).Broker({ client, directory: "/ws" })
try { await hooks.config(config) } catch (error) { told.push("start: " + error.message) }
for (const { args, ...call } of calls) {
  try {
    await hooks["tool.execute.before"](call, { args })
    told.push(null)
  } catch (error) { told.push(error.message) }
  try { args.command = "changed" } catch {}
}
console.log(JSON.stringify({ told, config, calls }))
"""


def put(package: str, name: str, folder: Path) -> Path:
    """Put a plugin into a folder, as a run does."""
    return Plugged(AgentHook(PiDialect())).put(package, name, folder)


def run_pi(plugin: Path, socket: Path | str, calls: Sequence[Mapping[str, object]]) -> Any:
    """Make calls as pi would."""
    return run_node(_PI, plugin, socket, json.dumps(calls))


def run_opencode(
    plugin: Path,
    socket: Path | str,
    calls: Sequence[Mapping[str, object]],
    sessions: Mapping[str, object],
) -> Any:
    """Make calls as opencode would; ``sessions`` is what it says of each session."""
    return run_node(_OPENCODE, plugin, socket, json.dumps(calls), json.dumps(sessions))


def payload(request: bytes, agent: str) -> dict[str, Any]:
    """Return what a plugin said in a request."""
    start, _, rest = request.partition(b"\n")
    assert start == b"hook " + agent.encode()
    found: dict[str, Any] = json.loads(rest)
    return found


def allowing(_: bytes) -> bytes:
    """Answer with an allow, whatever is asked."""
    return frame(ALLOW)


def run_node(driver: str, plugin: Path, socket: Path | str, *arguments: str, **environ: str) -> Any:
    """Run a driver, which is given the plugin and these arguments, and return what it tells."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    script = plugin.with_name("driver.mjs")
    script.write_text(driver)
    done = subprocess.run(
        [node, str(script), str(plugin), *arguments],
        env={**os.environ, "BROKER_SOCKET": str(socket), **environ},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
