"""
Which MCP servers Codex would start in a run, and the settings that put our gateway before them.

Decided here: that Codex itself is asked which servers it has, and that only those of the person's
configuration are taken: what was typed for this run stands behind our settings and would win. A
server with an address stays beside the gateway: settings of a run are laid over the person's, and
Codex takes no server that has both an address and a command. Not decided here: how an entry is
rewritten (``broker.agents.servers``).

Rules a maintainer keeps: a Codex that does not answer starts its servers as they are; its hook
stands before their tools all the same. Of a server's environment, which may hold keys, only our
own part is set: a command line can be read by every user of the machine, and Codex merges it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.agents.adapter import Launch
from broker.agents.servers import behind_gateway
from broker.agents.settingsfile import plain_text

ANSWER_S: Final = 20.0
START_S: Final = 30.0  # a gateway starts before its server does; Codex waits 10 s by itself
_TABLE: Final = "mcp_servers"
_START: Final = "startup_timeout_sec"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")


def gateway_settings(
    program: str, config: Path, launch: Launch, settings: Sequence[str]
) -> tuple[list[str], tuple[str, ...]]:
    """
    Return the settings, as ``KEY=VALUE``, that start servers behind the gateway, and the names of
    those with an address.

    Args:
        program: the program that will be started.
        config: the person's configuration.
        launch: the run.
        settings: what was typed, as options.
    """
    if _TABLE not in (plain_text(config) or ""):
        return [], ()  # asking takes a moment
    typed = " ".join(settings)
    found = _configured(program, launch, settings)
    servers = {
        name: entry
        for name, entry in found.items()
        if _NAME.fullmatch(name) and f"{_TABLE}.{name}" not in typed
    }
    beside = tuple(name for name, entry in found.items() if not entry["command"])
    return list(_settings(servers, launch)), beside


def _settings(servers: Mapping[str, Mapping[str, object]], launch: Launch) -> Iterator[str]:
    for name, entry in behind_gateway(servers, launch).items():
        if isinstance(entry, Mapping):
            for key in ("command", "args"):
                yield f"{_TABLE}.{name}.{key}={_toml(entry[key])}"
            yield f"{_TABLE}.{name}.env={_toml(_added(entry['env'], servers[name].get('env')))}"
            yield f"{_TABLE}.{name}.{_START}={max(START_S, _seconds(entry.get(_START)))}"


def _configured(
    program: str, launch: Launch, settings: Sequence[str]
) -> Mapping[str, Mapping[str, object]]:
    """Return how the servers are started that Codex has switched on; by nobody, with an address."""
    try:
        done = subprocess.run(
            [program, "mcp", "list", "--json", *settings],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(launch.environ),
            cwd=launch.cwd,
            timeout=ANSWER_S,
            check=True,
        )
        found = json.loads(done.stdout)
        return {
            str(row["name"]): {
                **{key: row["transport"].get(key) for key in ("command", "args", "env")},
                _START: row.get(_START),
            }
            for row in found
            if row["enabled"] is True
        }
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _added(environ: object, own: object) -> dict[str, object]:
    """Return what is not in a server's own environment."""
    before = own if isinstance(own, Mapping) else {}
    found = environ if isinstance(environ, Mapping) else {}
    return {name: text for name, text in found.items() if before.get(name) != text}


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _toml(value: object) -> str:
    """Return a text, a list or a table of texts as TOML on one line; JSON's texts are TOML's."""
    if isinstance(value, Mapping):
        rows = (f"{json.dumps(key)}={_toml(each)}" for key, each in value.items())
        return f"{{{','.join(rows)}}}"
    return json.dumps(value)
