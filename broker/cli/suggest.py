"""
`broker suggest`: the narrowest readable scope that allows what runs did.

Decided here: the words of the command, and that a policy file is written into the person's own
folder, never over another one unless that is asked for. Not decided here: what is suggested
(``broker.replay.suggest``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker.cli.exits import ALLOWED
from broker.cli.output import err, json_out, out, paint, printable
from broker.cli.recorded import Runs
from broker.cli.typed import Json
from broker.errors import InputError

if TYPE_CHECKING:
    from broker.calls import Decision
    from broker.cli.recorded import RecordedRun
    from broker.home import Home
    from broker.replay.suggest import CallAt, Suggestion

EXAMPLES = """\
\b
Examples:
  broker suggest                          from the latest session
  broker suggest k3v 7f2                  one scope that allows both runs
  broker suggest k3v --write tidy         as a policy: broker run --scope @tidy -- …
  broker suggest k3v --conditions         with conditions on arguments: see docs/scopes.md
  broker suggest k3v --json

\b
Tools that only read are named as a group, all others one by one. A folder is only opened where two
entries of it or more were touched. `calls` is twice what the longest run made. Each item says what
would be refused without it. Calls that were refused then are left out.
What a run did is not what it should have done: read the scope before you use it.
Exit code: 0 suggested, 2 no such run, nothing was allowed in it, or the policy is there already.
"""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_SHOWN: Final = 4  # calls that a line names


def suggest(
    runs: Runs = None,
    *,
    write: Annotated[
        str | None,
        typer.Option(
            "--write",
            metavar="NAME",
            help="Write it as a policy, with tests of its own.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --write: replace a policy of that name.")
    ] = False,
    conditions: Annotated[
        bool,
        typer.Option(
            "--conditions", help="Hold tools to what they were given: recipients, amounts, …"
        ),
    ] = False,
    as_json: Json = False,
) -> int:
    """Suggest the narrowest readable scope that allows what runs did."""
    from broker.cli.recorded import recorded
    from broker.home import Home
    from broker.intent import typed_text
    from broker.replay.suggest import suggest as narrowest

    if force and write is None:
        raise InputError("--force goes with --write NAME")
    home = Home.find(os.environ)
    with ExitStack() as stack:
        names: list[str | None] = [None]
        names = [*runs] if runs else names
        found = [stack.enter_context(recorded(name, home)) for name in names]
        catalogs = found[0].catalogs
        told = [(one.run.name, one.calls) for one in found]
        # A policy is for other lines than the one that was typed then.
        typed = {
            one.run.name: typed_text(one.run.line) for one in found if one.run.line and not write
        }
        suggestion = narrowest(told, catalogs, typed if conditions else None)
        path = None if write is None else _write(write, force, suggestion, found, home)
    if as_json:
        json_out({**_document(suggestion), "policy": None if path is None else str(path)})
    else:
        _tell(suggestion, [one.run.name for one in found])
    if path is not None:
        err(f"broker: written to {printable(str(path))}; use it as `--scope @{write}`")
    return ALLOWED


def _tell(suggestion: Suggestion, names: list[str]) -> None:
    several = len(names) > 1
    for text in suggestion.texts:
        out(paint(printable(text.text), "bold"))
        if text.why:
            out(f"    {printable(text.why)}")
        width = max((len(item.text) for item in text.items), default=0)
        for item in text.items:
            out(f"    {printable(item.text.ljust(width))}  {printable(item.why)}")
            out(f"    {'':{width}}  without it refused: {printable(_calls(item.calls, several))}")
    for line in suggestion.left_open:
        out(f"{paint('not limited', 'yellow')}  {printable(line)}")
    for head, colour, told in (
        ("no scope allows", "red", suggestion.beyond),
        ("not known", "yellow", suggestion.unknown),
    ):
        for call, why in told:
            line = f"{call.tool} ({_calls([call], several)}): {why}"
            out(f"{paint(head, colour)}  {printable(line)}")
    s = "s" if several else ""
    out(f"from {suggestion.calls} calls of {suggestion.runs} run{s}; read it before you use it")


def _calls(calls: Sequence[CallAt], several: bool) -> str:
    shown = [f"{call.run[:8]} {call.n}" if several else f"line {call.n}" for call in calls[:_SHOWN]]
    more = len(calls) - _SHOWN
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _document(suggestion: Suggestion) -> dict[str, object]:
    return {
        "scope": list(suggestion.scope),
        "texts": [
            {
                "key": text.key,
                "text": text.text,
                "why": text.why or None,
                "items": [
                    {"text": i.text, "why": i.why, "refused_without": [_at(c) for c in i.calls]}
                    for i in text.items
                ],
            }
            for text in suggestion.texts
        ],
        "left_open": list(suggestion.left_open),
        "beyond": [{**_at(call), "reason": why} for call, why in suggestion.beyond],
        "unknown": [{**_at(call), "reason": why} for call, why in suggestion.unknown],
        "runs": suggestion.runs,
        "calls": suggestion.calls,
    }


def _at(call: CallAt) -> dict[str, object]:
    return {"run": call.run, "n": call.n, "tool": call.tool}


def _write(
    name: str, force: bool, suggestion: Suggestion, found: list[RecordedRun], home: Home
) -> Path:
    """Write the policy, and return its file."""
    from broker.cli.dry import policy_folders

    if _NAME.fullmatch(name) is None:
        raise InputError(f"`{name}` cannot name a policy: use letters, digits, - and _")
    path = policy_folders(home)[0] / f"{name}.scope"
    if os.path.lexists(path) and not force:
        raise InputError(f"{path} is there already: give --force, or another name")
    text = _policy(suggestion, found, home)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{name}.part")
    part.unlink(missing_ok=True)
    with open(
        os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as f:
        f.write(text)
    if force:
        os.replace(part, path)
    else:
        try:
            os.link(part, path)  # unlike a rename, never over what is there by now
        except FileExistsError:
            raise InputError(f"{path} is there already: give --force, or another name") from None
        finally:
            part.unlink()
    return path


def _policy(suggestion: Suggestion, found: list[RecordedRun], home: Home) -> str:
    import tempfile

    from broker.cli.dry import DryRun
    from broker.replay.policyfile import policy_text

    catalogs = found[0].catalogs
    names = ", ".join(one.run.name[:12] for one in found)
    about = f"Suggested from {suggestion.calls} calls of {names}: read it before you use it."
    with tempfile.TemporaryDirectory(prefix="broker-policy-") as empty:
        world = DryRun(os.path.realpath(empty), home, catalogs=catalogs)
        ticket = world.ticket(suggestion.scope, 0)

        def decide(tool: str, arguments: dict[str, object]) -> Decision:
            return world.decide(ticket, tool, arguments, at=0)

        calls = [read for one in found for read in one.calls]
        return policy_text(suggestion, calls, about=about, known=catalogs.known, decide=decide)
