"""
`broker policy explain`: a policy in plain words, by what a person asks of it.

Decided here: the questions, and which caveats answer each. Not decided here: the words for a caveat
(``broker.cli.explain``), nor what it means.

Rule a maintainer keeps: whatever limits nothing is said too, since silence reads as a limit.
"""

from __future__ import annotations

import os
import time
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker.cli import completing
from broker.cli.exits import ALLOWED, MEANING
from broker.cli.output import json_out, out, paint, printable
from broker.cli.typed import Json, folder

if TYPE_CHECKING:
    from broker.catalogs import Catalogs
    from broker.caveats import Caveat
    from broker.ticket import Ticket

EXAMPLES = f"""\
\b
Examples:
  broker policy explain fix-tests
  broker policy explain ./team.scope
  broker policy explain fix-tests --json

\b
{MEANING}
"""

_NO_LINE: Final = "-"
_ASKED: Final = (
    ("Which tools", ("tools",), "any tool"),
    ("What it may read", ("paths", "reads"), "any path"),
    ("What it may write", ("paths", "writes"), "any path"),
    ("What it may reach", ("hosts",), "any host"),
    ("How often", ("calls",), "as often as it likes"),
    ("Until when", ("until",), "it does not end by itself"),
)
# What `outlook` says of a kind that is not limited stands under the question about it already.
_WIDTH: Final = 92  # columns of a sentence
_DOING: Final = {
    "read": "only read",
    "none": "touch nothing",
    "write": "change files",
    "egress": "reach the network",
    "delegate": "start helpers",
    "opaque": "do what cannot be seen",
}
_SAID: Final = ("not limited", "does not end by itself", "nothing is limited")
Name = Annotated[
    str, typer.Argument(autocompletion=completing.policies, metavar="NAME|FILE", show_default=False)
]


def explained(name: Name, as_json: Json = False) -> int:
    """Say in plain words what a policy permits, what it demands, and what stays closed."""
    from broker.cli.dry import DryRun
    from broker.cli.policies import find, folders, home

    at = time.time_ns()
    policy = find(name, folders())
    world = DryRun(os.path.realpath(folder(None)), home())
    ticket = world.ticket(policy.texts, at, intent=_NO_LINE)
    found = sections(ticket, world.catalogs, at)
    if as_json:
        json_out({"name": policy.name, "about": policy.about, "sections": dict(found)})
        return ALLOWED
    out(paint(f"@{printable(policy.name)}", "bold") + f"  {printable(policy.about)}")
    for head, lines in found:
        out(f"\n{paint(head, 'bold')}")
        for line in lines:
            out(f"    {printable(line)}")
    return ALLOWED


def sections(ticket: Ticket, catalogs: Catalogs, at: int) -> list[tuple[str, list[str]]]:
    """
    Return what a ticket comes to, one section for each question a person has.

    Args:
        ticket: a root.
        catalogs: what is known of tools.
        at: now, nanoseconds since the Unix epoch.

    >>> from broker.catalogs import load_catalogs
    >>> from broker.caveats import calls
    >>> from broker.ticket import mint
    >>> t = mint([calls(2)], key=bytes(32), sid="s", minted_at=0)
    >>> sections(t, load_catalogs(), 0)[0]
    ('Which tools', ['any tool'])
    """
    found = [
        (head, _answer((kinds, otherwise), ticket, catalogs, at))
        for head, kinds, otherwise in _ASKED
    ]
    closed = _closed(ticket, catalogs)
    return [*found, ("What stays closed", closed)]


def _answer(
    asked: tuple[tuple[str, ...], str], ticket: Ticket, catalogs: Catalogs, at: int
) -> list[str]:
    from broker.cli.explain import explain

    kinds, otherwise = asked
    lines: list[str] = []
    for caveat in ticket.caveats:
        if caveat.kind in kinds:
            lines += ["and also:"] if lines else []
            lines += _tools(caveat, catalogs) if caveat.kind == "tools" else explain(caveat, at)
    if not lines and kinds == ("hosts",) and ticket.bounds.no_network:
        return ["no URL: paths are limited and no hosts are named"]
    return lines or [otherwise]


def _tools(caveat: Caveat, catalogs: Catalogs) -> list[str]:
    """Return a list of tools by what they do; what else is in it comes behind."""
    from broker.cli.explain import explain

    items = caveat.value if isinstance(caveat.value, tuple) else ()
    named: dict[str, list[str]] = {effect: [] for effect in _DOING}
    for item in items:
        if isinstance(item, str) and "*" not in item:
            entry = catalogs.lookup(item, None)
            named["opaque" if entry is None else entry.effect].append(item)
    lines = []
    for effect, found in named.items():
        if found:
            text = f"{_DOING[effect]}: {', '.join(sorted(found))}"
            lines += wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    rest = tuple(item for item in items if not isinstance(item, str) or "*" in item)
    if rest or not lines:
        lines += explain(caveat._replace(value=rest), at=0)
    return lines


def _closed(ticket: Ticket, catalogs: Catalogs) -> list[str]:
    from broker.cli.explain import outlook
    from broker.rules import Rule

    said = [line for line in outlook(ticket, catalogs) if not line.endswith(_SAID)]
    lines = [line for line in said if not line.startswith(("no URL", "nothing is limited"))]
    rules = [item for b in ticket.bounds.tools for item in b.patterns if isinstance(item, Rule)]
    if rules:
        lines.append(
            "an argument that a rule does not name must be left out, and so must unknown ones"
        )
    if ticket.bounds.writes:
        lines.append("inside .git nothing is written but where a pattern names .git")
    lines.append("the broker's own files, keys and receipts are open to no tool")
    return lines
