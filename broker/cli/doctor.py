"""
`broker doctor`: can the broker do its work on this machine, and does an agent obey it?

Decided here: how the findings of ``broker.cli.probes``, ``broker.cli.walls``, ``broker.cli.layers``
and ``broker.agents.examining`` are shown, and that one bad finding is enough to say no.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker.cli.exits import ALLOWED, REFUSED, UNDECIDED
from broker.cli.output import json_out, out, paint, printable
from broker.cli.typed import Json

if TYPE_CHECKING:
    from broker.agents.examining import Examined

EXAMPLES = """\
\b
Examples:
  broker doctor
  broker doctor --agent claude        start it once, and see it obey a refusal
  broker doctor --agent all --json

\b
With --agent nothing is asked of a provider, and nothing is kept: the agent, set up as you have it,
gets one call to make from a model on this machine, in a folder of its own, and must be refused.
Exit code: 0 the broker can run here, or every agent is held; 1 it cannot, or one is not held;
2 that could not be told, because it is not installed, say.
"""

ALL: Final = "all"
Agents = Annotated[
    list[str] | None,
    typer.Option(
        "--agent",
        metavar="PROGRAM",
        help="Try this agent, by its name or path; `all` for every one that is installed. May be "
        "given again.",
    ),
]
_COLOURS: Final = {"ok": "green", "note": "yellow", "bad": "red"}
_ANSWERS: Final = {"held": "green", "not known": "yellow", "not held": "red"}


def doctor(agent: Agents = None, as_json: Json = False) -> int:
    """Check that this machine has what the broker needs, or that agents obey it."""
    if agent:
        return _agents(agent, as_json)
    from broker.cli.layers import layers
    from broker.cli.probes import examine
    from broker.cli.walls import walls
    from broker.home import Home

    findings = [*examine(Home.find(os.environ)), *walls(), *layers()]
    able = all(f.state != "bad" for f in findings)
    if as_json:
        json_out(
            {
                "able": able,
                "findings": [{"name": f.name, "state": f.state, "text": f.text} for f in findings],
            }
        )
    else:
        width = max(len(f.name) for f in findings)
        for f in findings:
            state = paint(f"{f.state:<4}", _COLOURS[f.state])
            out(f"{state}  {f.name:<{width}}  {printable(f.text)}")
        out()
        out("the broker can run here" if able else "the broker cannot run here: see `bad` above")
    return ALLOWED if able else REFUSED


def _agents(named: list[str], as_json: bool) -> int:
    """Try agents one after the other, tell of each as soon as it is known, and judge them all."""
    from broker.agents.examining import examine, known

    everyone = named == [ALL]
    found: list[Examined] = []
    for command in known() if everyone else named:
        each = examine(command, os.environ)
        if everyone and not each.program:
            continue
        found.append(each)
        if not as_json:
            _tell(each)
    if as_json:
        rows = [
            {
                "agent": each.agent,
                "answer": each.answer,
                "text": each.text,
                "program": each.program,
                "version": each.version,
                "tested": each.tested,
                "point": each.point,
                "took_s": None if each.took_s is None else round(each.took_s, 3),
                "subagent_took_s": None if each.helper_s is None else round(each.helper_s, 3),
            }
            for each in found
        ]
        json_out({"held": all(each.answer == "held" for each in found), "agents": rows})
    elif not found:
        out(f"no agent is installed that could be held: {', '.join(known())}")
    answers = {each.answer for each in found}
    if "not held" in answers:
        return REFUSED
    return ALLOWED if answers == {"held"} else UNDECIDED


def _tell(each: Examined) -> None:
    times = [f"{took_s:.1f} s" for took_s in (each.took_s, each.helper_s) if took_s is not None]
    took = f", in {' and '.join(times)}" if times else ""
    agent, text = printable(each.agent), printable(each.text)
    out(f"{paint(each.answer, _ANSWERS[each.answer])}  {agent}: {text}{took}")
    if each.program:
        version = printable(each.version) or "does not say its version"
        tested = f" (tested with {each.tested})" if each.tested else ""
        out(f"    version   {version}{tested}, at {printable(each.program)}")
    if each.point:
        out(f"    held by   {each.point}")
