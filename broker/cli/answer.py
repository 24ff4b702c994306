"""
`broker answer`: what an agent's run waits for a person to say.

Decided here: that only a person at a terminal answers: there has to be one, the line is typed at it
with the question's code, and whatever was started by the run itself is turned away. Not decided
here: what an answer does (``broker.sessions.asking``).

A rule a maintainer keeps: no option gives an answer, since a program could type options.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker.cli import completing
from broker.cli.exits import ALLOWED, MEANING, REFUSED
from broker.cli.output import json_out, out, paint, printable
from broker.cli.typed import Json
from broker.errors import InputError

if TYPE_CHECKING:
    from broker.asking import AskingTerminal
    from broker.mailbox import Mailbox, Posted

EXAMPLES = f"""\
\b
Examples:
  broker answer                       what the latest session asks
  broker answer 3f2a
  broker answer --list --json

\b
An answer is typed at the terminal, with the code of its question: `yes 123456` for that one call,
`always 123456` for every call that is the same, `no 123456`, or `never`. A yes mints a ticket for
that call beside the agent's own; both stand in the receipt. An empty line leaves a question open.

\b
{MEANING}
"""
_TAKEN_S: Final = 3.0  # until a running session has taken an answer


def answer(
    sid: Annotated[
        str | None,
        typer.Argument(
            metavar="[SID]",
            autocompletion=completing.session_ids,
            show_default="the latest session",
        ),
    ] = None,
    *,
    listed: Annotated[
        bool, typer.Option("--list", help="Only show what is asked; answer nothing.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Show what a running session asks about refused calls, and answer it."""
    mailbox = _mailbox(sid)
    posted = list(mailbox.posted())
    if as_json:
        json_out([{"number": p.number, "lines": list(p.lines)} for p in posted])
        return ALLOWED
    if not posted:
        out("nothing is asked")
        return ALLOWED
    if listed:
        for each in posted:
            for line in each.lines:
                out(printable(line))
        return ALLOWED
    terminal = _terminal(posted)
    try:
        taken = [_answered(terminal, mailbox, each) for each in posted]
    finally:
        terminal.close()
    return ALLOWED if all(taken) else REFUSED


def _mailbox(sid: str | None) -> Mailbox:
    from broker.home import Home
    from broker.mailbox import Mailbox
    from broker.receipt.keys import load_key
    from broker.receipt.store import Receipts
    from broker.sessions.ground import key_path

    home = Home.find(os.environ)
    key = load_key(key_path(home))
    receipts = Receipts(home, key)
    found = receipts.find(sid)
    return Mailbox(receipts.path(found).parent, found, key)


def _terminal(posted: list[Posted]) -> AskingTerminal:
    """
    Return the terminal where a person types.

    Raises:
        InputError: there is none, or this was started by the run that asks.
    """
    from broker.asking import AskingTerminal
    from broker.service.client import SESSION_VARIABLE, SOCKET_VARIABLE

    inside = os.environ.get(SESSION_VARIABLE) or os.environ.get(SOCKET_VARIABLE)
    if inside or _descends({each.pid for each in posted}):
        raise InputError("a run does not answer its own questions: type it at another terminal")
    try:
        return AskingTerminal()
    except OSError:
        raise InputError(
            "an answer is typed at a terminal, and there is none here; `--list` shows the questions"
        ) from None


def _descends(brokers: set[int]) -> bool:
    """Whether one of these processes started this one, at whatever distance (Linux)."""
    pid = os.getpid()
    for _ in range(1_000):
        try:
            status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return False
        pid = int(status.rpartition(")")[2].split()[1])
        if pid in brokers:
            return True
        if pid <= 1:
            return False
    return True


def _answered(terminal: AskingTerminal, mailbox: Mailbox, posted: Posted) -> bool:
    """Show a question, hand in what is typed, and return whether it was taken."""
    from broker.asking import HOW

    terminal.show((*posted.lines, HOW.format(code=posted.code)))
    line = None
    while line is None:
        if not mailbox.waits(posted.number):
            terminal.say((f"question {posted.number} was answered, or its run is over",))
            return True
        line = terminal.line(0.5)
    if not line.strip():
        return True
    if line.split()[:1] != ["never"] and posted.code not in line.split()[1:2]:
        terminal.say((f"not answered: repeat the code, as in `yes {posted.code}`",))
        return False
    mailbox.answer(posted.number, line)
    until = time.monotonic() + _TAKEN_S
    while mailbox.waits(posted.number):
        if time.monotonic() > until:
            out(paint("not taken", "red") + f": question {posted.number}: is its run still going?")
            return False
        time.sleep(0.05)
    out(f"{paint('answered', 'green')}: question {posted.number}")
    return True
