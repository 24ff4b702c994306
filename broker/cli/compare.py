"""
`broker compare`: the same run, forked onto several models, one after another.

Decided here: that each fork is a process and a folder of its own, what its verdict is, and the
table. Not decided here: how a run is forked (``broker.replay``), what is counted
(``broker.replay.figures``).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker.cli.exits import ALLOWED, REFUSED
from broker.cli.output import err, json_out, out, printable, table
from broker.cli.typed import Json, file_bytes
from broker.errors import BrokerError, InputError

if TYPE_CHECKING:
    from broker.home import Home
    from broker.replay.figures import ModelPrice, RunFigures

EXAMPLES = """\
\b
Examples:
  broker compare run_9f2c --from 40 --models claude-haiku-4-5,claude-opus-4-5 --verify 'pytest -q'
  broker compare --from 40 --models a,b --verify 'make test' --into ../tried --json

\b
Each model takes the run up from the checkpoint, in a folder of its own, and the command of --verify
is run there: its exit code is the verdict. Tokens and calls are those after the fork. A price is
known only where you wrote it down, per million tokens, in prices.toml of the configuration folder
or in --prices FILE:
  ["claude-haiku-4-5"]
  input = 1.0
  output = 5.0
\b
Exit code: 0 every fork passed, 1 one did not, 2 bad input.
"""
_BROKER: Final = "from broker.cli.main import main; main()"
_DASH: Final = "-"


@dataclass(frozen=True, slots=True)
class Tried:
    """One fork: the model, its run, its verdict (None: nothing was verified) and why not."""

    model: str
    run: str
    verdict: int | None
    why: str
    figures: RunFigures
    cost: float | None

    @property
    def passed(self) -> bool:
        """Whether it was forked, and its verdict is good."""
        return not self.why and self.verdict in (0, None)


def compare(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", show_default="the latest recorded run")
    ] = None,
    *,
    from_: Annotated[int, typer.Option("--from", metavar="N", min=0, help="The event to fork at.")],
    models: Annotated[str, typer.Option("--models", metavar="A,B,…", help="The models, by name.")],
    verify: Annotated[
        str,
        typer.Option("--verify", metavar="COMMAND", help="Run in each folder.", show_default=False),
    ] = "",
    prices: Annotated[
        str | None,
        typer.Option(
            "--prices", metavar="FILE", help="What tokens cost.", show_default="prices.toml"
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into", metavar="DIR", help="Keep each folder, below here.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Fork a run onto several models, verify each, and show what each took."""
    from broker.home import Home
    from broker.trace.runs import find

    names = [name.strip() for name in models.split(",")]
    if not all(names) or len(set(names)) != len(names):
        raise InputError("--models takes names, separated by commas, each once")
    home = Home.find(os.environ)
    known = _prices(prices, home)
    parent = find(home.runs, run).name
    asked = _Asked(parent, from_, verify, known, home)
    with ExitStack() as stack:
        if into is None:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="broker-compare-"))
            below = Path(made)
        else:
            below = into.absolute()
        tried = []
        for n, model in enumerate(names):
            err(f"broker: {n + 1} of {len(names)}: {printable(model)}")
            folder = below / re.sub(r"[^0-9A-Za-z._-]", "-", f"{n + 1}-{model}")
            tried.append(_tried(asked, model, folder))
    if as_json:
        json_out({"parent": parent, "from": from_, "forks": [_document(each) for each in tried]})
    else:
        for line in table(map(_row, tried), _HEADS):
            out(line)
        for each in tried:
            if each.why:
                err(f"broker: {printable(f'{each.model}: {each.why}')}")
    return ALLOWED if all(each.passed for each in tried) else REFUSED


@dataclass(frozen=True, slots=True)
class _Asked:
    """What all forks have in common."""

    parent: str
    point: int
    verify: str
    prices: Mapping[str, ModelPrice]
    home: Home


def _tried(asked: _Asked, model: str, folder: Path) -> Tried:
    """Fork the run onto one model, and verify what it left behind."""
    from broker.replay.figures import RunFigures, figures_of
    from broker.trace.reader import RunReader

    words = ["replay", asked.parent, "--from", str(asked.point), "--model", model]
    done = subprocess.run(
        [sys.executable, "-c", _BROKER, *words, "--into", str(folder), "--quiet", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
    )
    try:
        outcome = json.loads(done.stdout)
        figures = figures_of(
            RunReader.open(asked.home.runs / outcome["run"]).stream(), outcome["reused"]
        )
    except (ValueError, KeyError, BrokerError):
        return Tried(model, "", None, "it could not be forked", RunFigures(), None)
    price = asked.prices.get(model)
    cost = None if price is None else price.of(figures)
    if done.returncode:
        return Tried(model, outcome["run"], None, outcome["halted"] or "it diverged", figures, cost)
    verdict = None
    if asked.verify:
        shell = ["sh", "-c", asked.verify]  # the person's own command
        verdict = subprocess.run(shell, cwd=folder, stdout=2, check=False).returncode
    return Tried(model, outcome["run"], verdict, "", figures, cost)


def _prices(typed: str | None, home: Home) -> Mapping[str, ModelPrice]:
    from broker.replay.figures import read_prices

    usual = home.config / "prices.toml"
    if typed is None and not usual.exists():
        return {}
    name = typed or str(usual)
    return read_prices(file_bytes(name, "the prices"), name)


_HEADS: Final = ("model", "verdict", "calls", "refused", "tokens", "cost", "wall", "run")


def _row(tried: Tried) -> tuple[str, ...]:
    figures = tried.figures
    verdict = _DASH if tried.verdict is None else "pass" if tried.verdict == 0 else "fail"
    return (
        tried.model,
        "diverged" if tried.why else verdict,
        str(figures.calls),
        str(figures.refused),
        f"{figures.input_tokens} + {figures.output_tokens}",
        _DASH if tried.cost is None else f"{tried.cost:.4f}",
        f"{figures.wall_s:.1f} s",
        tried.run or _DASH,
    )


def _document(tried: Tried) -> dict[str, object]:
    figures = tried.figures
    return {
        "model": tried.model,
        "run": tried.run or None,
        "passed": tried.passed,
        "verdict": tried.verdict,
        "why": tried.why or None,
        "calls": figures.calls,
        "refused": figures.refused,
        "input_tokens": figures.input_tokens,
        "output_tokens": figures.output_tokens,
        "cost": tried.cost,
        "wall_s": round(figures.wall_s, 3),
    }
