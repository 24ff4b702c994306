"""
What a person types as ``/name`` at the terminal.

Decided here: which commands there are, and what each shows. Not decided here: what a change of a
scope is (``sitting``).

Rules a maintainer keeps: a command is run for a line that was read from a terminal, and for nothing
that a model or a file says; one that cannot be done has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.agentloop.sitting import Sitting
from broker.errors import InputError
from broker.harness.items import SlashCommand
from broker.harness.show import plain, short
from broker.intent import TypedLine

_SCOPE: Final = "show what the agent may do; `narrow K=V …` takes away, `replace K=V …` replaces it"


def slash_commands(at: Callable[[], Sitting]) -> tuple[SlashCommand, ...]:
    """Return the commands of a sitting, which is asked for when one is typed."""

    def scope(rest: str) -> str:
        sitting = at()
        verb, *texts = _words(rest)
        if not verb:
            return sitting.described()
        if verb not in ("narrow", "replace") or not texts:
            raise InputError("write `/scope`, `/scope narrow K=V …` or `/scope replace K=V …`")
        if verb == "narrow":
            return sitting.narrow(texts)
        return sitting.replace(texts, TypedLine(f"/scope {rest}", "terminal"))

    def receipt(rest: str) -> str:
        session = at().session()
        return (
            f"{session.allowed} allowed, {session.refused} refused so far\n"
            f"receipt {session.receipt_path}\n"
            f"head {session.head}\n"
            f"check it with `broker receipt {session.sid[:8]} --verify`"
        )

    def tools(rest: str) -> str:
        found = at().composition.registry.current.tools.values()
        return "\n".join(f"{tool.name:<12} {short(plain(tool.about), 80)}" for tool in found)

    def listed(rest: str) -> str:
        found = at().composition.registry.current.commands.values()
        return "\n".join(f"/{each.name:<9} {each.about}" for each in found)

    def leave(rest: str) -> str:
        at().over = True
        return ""

    return (
        SlashCommand("scope", _SCOPE, scope),
        SlashCommand("receipt", "show where the receipt is, and how to check it", receipt),
        SlashCommand("tools", "list the tools that the agent is offered", tools),
        SlashCommand("help", "list these commands", listed),
        SlashCommand("quit", "end the session and seal its receipt", leave),
    )


def _words(rest: str) -> list[str]:
    """
    Return the words of a line; blanks inside quotes and brackets part nothing.

    >>> _words('narrow tools=read,write(path under "a b/") calls=3')
    ['narrow', 'tools=read,write(path under "a b/")', 'calls=3']
    """
    words, depth, quoted = [""], 0, False
    escaped = False
    for char in rest.strip():
        quoted ^= char == '"' and not escaped
        escaped = char == "\\" and not escaped
        if not quoted:
            depth += (char in "({[") - (char in ")}]")
        if char.isspace() and not quoted and depth <= 0:
            words += [""] if words[-1] else []
        else:
            words[-1] += char
    return words
