"""
The lines of a person at a terminal, one after the other.

Decided here: what a line is (a command, or one for the agent), that what goes wrong with one is
told and the next is read, and that Ctrl-C stops what is going on and, given again before anything
else was typed, ends the session. Not decided here: what the agent does with a line (``sitting``).

A rule a maintainer keeps: a line counts as a person's because it was read from their terminal here,
and for no other reason.
"""

from __future__ import annotations

from typing import Final

from broker.agentloop.sitting import Sitting
from broker.agentloop.streaming import Streamed
from broker.capabilities.terminal import Terminal
from broker.errors import AttenuationError, BrokerError, InputError, ScopeError
from broker.harness.show import plain
from broker.intent import TypedLine

PROMPT: Final = "> "
_AGAIN: Final = "stopped; Ctrl-C once more, or /quit, ends the session\n"


def converse(
    sitting: Sitting, terminal: Terminal, shown: Streamed, first: TypedLine | None = None
) -> str:
    """
    Follow the person's lines until they leave; return why the session is over.

    Args:
        sitting: what their lines are given to.
        terminal: where they are read.
        shown: what is shown of a run.
        first: a line that they typed already.

    Returns:
        ``complete``, or ``interrupted`` when they pressed Ctrl-C twice.
    """
    stopped = False
    while not sitting.over:
        try:
            line, first = first or _read(terminal), None
            if line is None:
                return "complete"
            stopped = False
            _follow(sitting, terminal, line)
        except KeyboardInterrupt:
            shown.end()
            if stopped:
                return "interrupted"
            stopped = True
            terminal.write_error(_AGAIN)
        except BrokerError as error:
            shown.end()
            terminal.write_error(told_error(error))
        shown.end()
    return "complete"


def _read(terminal: Terminal) -> TypedLine | None:
    typed = terminal.read_line(PROMPT)
    return None if typed is None else TypedLine(typed, "terminal")


def _follow(sitting: Sitting, terminal: Terminal, line: TypedLine) -> None:
    text = line.text.strip()
    if any("\ud800" <= sign <= "\udfff" for sign in text):  # bytes that are no UTF-8
        raise InputError("that line is not well-formed text, so nobody was asked: type it again")
    if text.startswith("/"):
        name, _, rest = text[1:].partition(" ")
        command = sitting.composition.registry.current.commands.get(name)
        if command is None:
            raise InputError(f"there is no command `/{name}`: see /help")
        if answer := command.run(rest):
            terminal.write("".join(f"{plain(part)}\n" for part in answer.splitlines()))
    elif text:
        sitting.say(line)


def told_error(error: BrokerError) -> str:
    """
    Return an error in lines for a person.

    >>> told_error(InputError("no such thing"))
    'broker: no such thing\\n'
    """
    text = error.pointed() if isinstance(error, ScopeError) else error.message
    if isinstance(error, AttenuationError):
        text += "; what you want may be `/scope replace`"
    first, *more = text.splitlines() or [""]
    return "".join(f"{plain(line)}\n" for line in (f"broker: {first}", *more))
