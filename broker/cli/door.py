"""
Running one typer command, and turning whatever it raises into a line and an exit code.

Decided here: which class of error has which exit code. A broken chain or a widening is a *no*
(1); bad input, an unreadable file, a missing key and anything unforeseen is *could not decide*
(2). Nothing that goes wrong ever exits with 0.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

import typer

from broker.boundary import contained
from broker.cli.app import app
from broker.cli.completing import VARIABLE, complete
from broker.cli.exits import ALLOWED, INTERRUPTED, REFUSED, UNDECIDED
from broker.cli.output import err, flush, paint, prepare, printable, raw_out, settle
from broker.errors import AttenuationError, BrokerError, Refused, ScopeError, VerificationError

# typer keeps the base of its usage errors to itself; this is it.
_UsageError: Final = typer.BadParameter.__bases__[0]
_NO: Final = (VerificationError, AttenuationError, Refused)


def run(words: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    prepare()
    try:
        code = contained(partial(_told, list(words)), _failed)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    return code if settle() or code else UNDECIDED


def _told(words: list[str]) -> int:
    """Run the command; an answer that does not reach its reader is no answer."""
    code = _invoke(words)
    flush()
    return code


def _invoke(words: list[str]) -> int:
    if VARIABLE in os.environ:
        answer = partial(app, args=words, prog_name="broker")
        raw_out(complete(answer, os.environ).encode())
        return ALLOWED
    code = app(args=words, prog_name="broker", standalone_mode=False)
    return code if isinstance(code, int) else 0


def _failed(error: Exception) -> int:
    if isinstance(error, typer.Abort):
        return INTERRUPTED
    if os.environ.get("BROKER_DEBUG"):
        import traceback

        traceback.print_exception(error)
    for number, line in enumerate(_lines(error)):
        err(f"{paint('broker:', 'red', sys.stderr)} {line}" if number == 0 else line)
    return REFUSED if isinstance(error, _NO) else UNDECIDED


def _lines(error: Exception) -> list[str]:
    """Return the error in lines: one, and for a scope's fault the place of it."""
    if isinstance(error, ScopeError):
        return [printable(line) for line in error.pointed().split("\n")]
    if isinstance(error, BrokerError):
        return [printable(error.message)]
    if isinstance(error, _UsageError):
        return [_usage(error)]
    if isinstance(error, OSError):
        named = f"`{printable(str(error.filename))}`: " if error.filename else ""
        return [f"{named}{(error.strerror or str(error)).lower()}"]
    if isinstance(error, RecursionError | MemoryError):
        return ["the input is too large or nested too deeply"]
    return [
        f"could not decide: {type(error).__name__}: {printable(str(error))} (a fault of the "
        "broker; BROKER_DEBUG=1 shows where)"
    ]


def _usage(error: Exception) -> str:
    """Return a usage error on one line, with the help that explains it."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "broker"
    if isinstance(error, typer.BadParameter):
        message = error.format_message()
    else:
        message = str(error)
        near = sorted(getattr(error, "possibilities", None) or ())
        if near:
            message += f"; did you mean {near[0]}?"
    text = message[:1].lower() + message[1:].rstrip(".").replace("'", "`")
    return f"{printable(text)} (see `{command} --help`)"
