"""
Tasks of AgentDojo as scopes: what a task's own calls need, written as a person would type it.

The tasks and their limits lie outside the project (the ``shared`` fixture); the tools are
described in ``bench/catalogs``. A limit there is translated word by word into a condition, so
that what is tested is the language and not this file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from broker.authorize import authorize
from broker.calls import Decision
from broker.catalogs import Catalogs, ToolEntry
from broker.catalogs.reader import read_catalog
from broker.resolve import Resolver
from broker.scope import parse_scope
from broker.ticket import Ticket, mint

ROOT = Path(__file__).resolve().parents[2]
KEY = bytes(32)


def bench_catalog(name: str) -> Catalogs:
    """The tools of a benchmark."""
    path = ROOT / "bench" / "catalogs" / f"{name}.toml"
    return Catalogs(read_catalog(path.read_bytes(), path.name))


@dataclass
class AgentDojo:
    """The tasks, what each may do, and a workspace in which nothing lies."""

    folder: Path
    workspace: Path

    @cached_property
    def catalogs(self) -> Catalogs:
        return bench_catalog("agentdojo")

    @cached_property
    def resolver(self) -> Resolver:
        return Resolver(self.workspace, self.catalogs)

    @cached_property
    def suites(self) -> dict:
        return json.loads((self.folder / "agentdojo.json").read_text())["suites"]

    @cached_property
    def limits(self) -> dict:
        return json.loads((self.folder / "agentdojo_tickets.json").read_text())

    @cached_property
    def mutations(self) -> list[dict]:
        text = (self.folder / "agentdojo_mutations.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def scope(self, suite: str, task: str) -> str:
        """The `tools` text of a task."""
        limits = self.limits[f"{suite}/{task}"]
        items = [self._item(suite, tool, limits) for tool in limits["tools"]]
        return "tools=" + ",".join(items)

    def ticket(self, suite: str, task: str, *more: str) -> Ticket:
        """The ticket of a task, with more texts beside its tools."""
        texts = [self.scope(suite, task), *more]
        groups = self.catalogs.groups()
        scope = parse_scope(texts, at=0, groups=groups, lookup=self.catalogs.known)
        return mint(scope.caveats, key=KEY, sid="s", minted_at=0)

    def allowance(self, suite: str, task: str, tool: str) -> int:
        """How many calls of a tool the task makes itself."""
        calls = self.suites[suite]["user_tasks"]
        found = calls[task] if isinstance(calls, dict) else calls[int(task.rpartition("_")[2])]
        return sum(call["function"] == tool for call in found["ground_truth"])

    def decide(self, ticket: Ticket, call: dict, spent: int = 0) -> Decision:
        """What the ticket says to a call."""
        return authorize(ticket, self.resolver.resolve(call["function"], call["args"]), 0, spent)

    def _item(self, suite: str, tool: str, limits: dict) -> str:
        needed = self.suites[suite]["tools"][tool]["parameters"].get("required") or []
        entry = self.catalogs.known(tool)
        assert entry is not None
        asked = [
            _condition(entry, name, limit, name not in needed)
            for name, limit in limits["args"].get(tool, {}).items()
        ]
        asked += [f"{name} absent" for name in limits["closed"].get(tool, ())]
        asked = [text for text in asked if text]
        return f"{tool}({', '.join(asked)})" if asked else tool


def _condition(entry: ToolEntry, name: str, limit: dict, optional: bool) -> str:
    way = name + "?" * optional
    if entry.arguments[name].fields is not None:
        way += ".file_id"
    (kind, wanted), *_ = limit.items()
    if kind == "max":
        return f"{way}<={_number(wanted)}"
    if kind == "date_in":
        return f"{way} on {{{', '.join(wanted)}}}"
    if kind == "text_entities_in":
        return ""  # free text stays open
    return f"{way} in {{{', '.join(json.dumps(v, ensure_ascii=False) for v in wanted)}}}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
