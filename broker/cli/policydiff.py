"""
`broker policy diff`: what one policy allows and another does not, by example.

Decided here: how an example is shown, and by which known tool. Not decided here: which examples
there are (``broker.difference``). What is shown as a call of a known tool was resolved and decided
under both policies once more, in an empty workspace.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker.cli import completing
from broker.cli.exits import ALLOWED, REFUSED, UNDECIDED
from broker.cli.output import err, json_out, out, paint, printable
from broker.cli.typed import Json, folder

if TYPE_CHECKING:
    from broker.calls import Call
    from broker.catalogs.entry import ToolEntry
    from broker.cli.dry import DryRun
    from broker.difference import Difference, Found
    from broker.policy import Policy
    from broker.ticket import Ticket

EXAMPLES = """\
\b
Examples:
  broker policy diff review fix-tests
  broker policy diff ./team.scope ./team.new.scope
  broker policy diff @review ./mine.scope --json

\b
Each line is a call that one of them allows and the other refuses, with the caveat that refuses it:
one example for each reason, not a list of all such calls. Where the example is no call of a tool
that is known here, any tool would do that touches the same.

\b
Exit code: 0 they allow the same, 1 they differ, 2 bad input or it could not be decided.
"""

_NO_LINE: Final = "-"
_FITTING: Final = {
    "read": ("path-read", "path-list", "path-tree"),
    "write": ("path-write", "path-put", "path-delete"),
    "url": ("url", "address"),
}
Side = Annotated[
    str, typer.Argument(autocompletion=completing.policies, metavar="NAME|FILE", show_default=False)
]


def diff(one: Side, other: Side, as_json: Json = False) -> int:
    """Say by example what one policy allows and another does not, both ways."""
    import tempfile
    from pathlib import Path

    from broker.catalogs import load_catalogs
    from broker.cli.dry import DryRun
    from broker.cli.policies import find, folders, home

    at = time.time_ns()
    sides = [find(name, folders()) for name in (one, other)]
    with tempfile.TemporaryDirectory(prefix="broker-policy-") as empty:
        here = home()
        catalogs = load_catalogs(Path(folder(None)), here.config)
        world = DryRun(os.path.realpath(empty), here, catalogs=catalogs)
        tickets = [world.ticket(side.texts, at, intent=_NO_LINE) for side in sides]
        ways = [
            _Way(sides[a], sides[b], tickets[a], tickets[b], world) for a, b in ((0, 1), (1, 0))
        ]
        if as_json:
            json_out([way.document() for way in ways])
        else:
            for way in ways:
                way.show()
    return _code([way.found for way in ways])


def _code(found: Sequence[Found]) -> int:
    if any(each.differences for each in found):
        return REFUSED
    return UNDECIDED if any(each.unsure for each in found) else ALLOWED


def _order(entry: ToolEntry) -> tuple[bool, bool, str]:
    """Show what everybody knows first: tools of an agent's own, and those that read."""
    return entry.server is not None, entry.effect != "read", entry.name


class _Way:
    """One direction: what the first policy allows and the second does not."""

    def __init__(
        self, one: Policy, other: Policy, mine: Ticket, theirs: Ticket, world: DryRun
    ) -> None:
        from broker.difference import difference

        self.one, self.other = one, other
        self._mine, self._theirs, self._world = mine, theirs, world
        self._known = sorted(world.catalogs.tools(), key=_order)
        names = [entry.name for entry in self._known if entry.server is None]
        self.found = difference(mine, theirs, names=names)

    def show(self) -> None:
        head = f"@{self.one.name} allows, @{self.other.name} refuses"
        out(paint(f"{printable(head)}:", "bold"))
        for each in self.found.differences:
            call = printable(self._told(each))
            out(f"    {call}  {paint(f'({each.refusal.caveat})', 'dim')}")
        if not self.found.differences and not self.found.unsure:
            out("    nothing")
        for why in self.found.unsure:
            err(f"{paint('not decided:', 'yellow')} {printable(head)}: {printable(why)}")

    def document(self) -> dict[str, object]:
        """Return this direction as JSON."""
        return {
            "allows": self.one.name,
            "refuses": self.other.name,
            "examples": [self._document(each) for each in self.found.differences],
            "unsure": list(self.found.unsure),
        }

    def _document(self, each: Difference) -> dict[str, object]:
        known = self._by_known_tool(each)
        call = each.call if known is None else known
        return {
            "tool": call.tool,
            "server": call.server,
            "arguments": dict(call.arguments or {}),
            "known_tool": known is not None,
            "paths": [{"path": p.spelled, "access": p.access} for p in call.paths],
            "urls": [u.spelled for u in call.urls],
            "unseen": call.opaque,
            "line": each.line,
            "at": each.at,
            "spent": each.spent,
            "caveat": each.refusal.caveat,
            "reason": each.refusal.reason,
        }

    def _told(self, each: Difference) -> str:
        from broker.instants import format_instant
        from broker.language.ruletext import spell_value

        known = self._by_known_tool(each)
        call = each.call if known is None else known
        given = ", ".join(
            f"{name}={spell_value(value) if isinstance(value, str | int | float) else value}"
            for name, value in (call.arguments or {}).items()
        )
        text = f"{call.tool}({given})"
        if known is None:
            for path in call.paths:
                text += f", where it {path.access}s `{path.spelled}`"
            text += "".join(f", where it reaches `{url.spelled}`" for url in call.urls)
        if call.opaque:
            text += ", if what it touches cannot be seen"
        if call.missing:
            text += ", without the argument that names a path"
        if each.line:
            text += f", where the line says `{each.line}`"
        if each.refusal.caveat == "until":
            text += f" at {format_instant(each.at)}"
        if each.refusal.caveat == "calls":
            text += f" as call {each.spent + 1}"
        return text

    def _by_known_tool(self, each: Difference) -> Call | None:
        """Return a call of a known tool that shows the same, or None."""
        for entry, arguments in self._tries(each):
            call = self._world.resolver.resolve(entry.name, arguments, server=entry.server)
            if self._shows(call, each):
                return call
        return None

    def _tries(self, each: Difference) -> Iterator[tuple[ToolEntry, dict[str, object]]]:
        call = each.call
        if call.opaque or call.missing or len(call.paths) + len(call.urls) != 1:
            return
        for entry in self._known:
            for name, argument in entry.arguments.items():
                kind = call.paths[0].access if call.paths else "url"
                if argument.role in _FITTING[kind] and not argument.many:
                    spelled = call.paths[0].spelled if call.paths else call.urls[0].spelled
                    yield entry, {name: spelled}

    def _shows(self, call: Call, each: Difference) -> bool:
        from broker.authorize import authorize

        if call.missing or call.opaque:
            return False
        if not authorize(self._mine, call, each.at, each.spent).allowed:
            return False
        refusal = authorize(self._theirs, call, each.at, each.spent).refusal
        return refusal is not None and refusal.caveat == each.refusal.caveat
