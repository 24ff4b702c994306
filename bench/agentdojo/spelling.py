"""
Limits as scope text, as a person would type it; and the ticket that the text comes to.

The text goes through the real parser, the real catalog and the real mint, so that what is measured
is what a person gets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.agentdojo.limits import Limit, Limits, ToolLimits
from bench.agentdojo.tasks import Asked
from broker.authorize import authorize
from broker.calls import Decision
from broker.catalogs import Catalogs
from broker.catalogs.reader import read_catalog
from broker.intent import typed_text
from broker.resolve import Resolver
from broker.scope import parse_scope
from broker.ticket import mint

CATALOGS = Path(__file__).resolve().parents[1] / "catalogs"
KEY = bytes(32)


def bench_catalog(name: str) -> Catalogs:
    """Return what is known of a benchmark's tools."""
    path = CATALOGS / f"{name}.toml"
    return Catalogs(read_catalog(path.read_bytes(), path.name))


Seen = Callable[[Limits, str, Asked, int, bool], None]
"""Is told of a decision: under which limits and line, of which call and count, and the answer."""


@dataclass(frozen=True, slots=True)
class Bench:
    """A benchmark's catalog, and the workspace in which none of its tools' paths lies."""

    known: Catalogs
    resolver: Resolver
    seen: Seen | None = None

    @classmethod
    def of(cls, name: str, workspace: Path, seen: Seen | None = None) -> Bench:
        """Return the bench of one catalog; ``seen`` is told of each decision."""
        known = bench_catalog(name)
        return cls(known, Resolver(workspace, known), seen)

    def gate(self, limits: Limits, line: str) -> Gate:
        """Return what holds calls to some limits, minted from a person's line."""
        typed = typed_text(line)
        scope = parse_scope(
            scope_texts(limits), at=0, groups=self.known.groups(), lookup=self.known.known
        )
        ticket = mint(scope.caveats, key=KEY, sid="bench", minted_at=0, intent=typed.digest)

        def decide(call: Asked, spent: int) -> Decision:
            resolved = self.resolver.resolve(call.tool, dict(call.arguments))
            decision = authorize(ticket, resolved, 0, spent, line=typed)
            if self.seen is not None:
                self.seen(limits, line, call, spent, decision.allowed)
            return decision

        return Gate(decide)


class Gate:
    """One ticket, ready to be asked; calls that it allows are counted against it."""

    def __init__(self, decide: Callable[[Asked, int], Decision]) -> None:
        self.decide = decide

    def admits(self, call: Asked, spent: int = 0) -> bool:
        """Return whether a call passes."""
        return self.decide(call, spent).allowed

    def run(self, calls: Iterable[Asked]) -> list[bool]:
        """Return which of some calls pass, one after the other."""
        answers: list[bool] = []
        for call in calls:
            answers.append(self.admits(call, sum(answers)))
        return answers


# ── the text ──


def scope_texts(limits: Limits) -> list[str]:
    """
    Return the limits as `KEY=VALUE` texts.

    >>> scope_texts(Limits(("ls",), (ToolLimits("pay", {"to": Limit("among", ("A",))}),), calls=2))
    ['tools=ls, pay(to in {"A"})', 'calls=2']
    """
    items = ["@reads"] if limits.reads and not limits.everything else []
    items += limits.names
    items += [_rule(tool) for tool in limits.tools]
    if limits.everything:
        items.append("*(... in intent)")
    texts = [f"tools={', '.join(items) or 'none'}"]
    return texts if limits.calls is None else [*texts, f"calls={limits.calls}"]


def _rule(tool: ToolLimits) -> str:
    parts = [_condition(way, limit) for way, limit in tool.arguments.items()]
    return f"{tool.tool}({', '.join([*parts, *(['... in intent'] if tool.rest else [])])})"


def _condition(way: str, limit: Limit) -> str:
    first, dot, inner = way.partition(".")
    named = first + "?" * (limit.optional and limit.kind != "absent") + dot + inner
    given = ", ".join(_literal(v) for v in limit.values)
    match limit.kind:
        case "any":
            return named
        case "absent":
            return f"{way} absent"
        case "line":
            return f"{named} in intent"
        case "line links":
            return f"{named} links in intent"
        case "links":
            return f"{named} links in {{{given}}}" if given else f"{named} links absent"
        case "most":
            return f"{named}<={given}"
        case "days":
            return f"{named} on {{{', '.join(map(str, limit.values))}}}"
    return f"{named} in {{{given}}}"


def _literal(value: object) -> str:
    if type(value) is float and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)
