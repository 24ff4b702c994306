"""
The permission rules of one run, and the person who may be asked.

Decided here: that a question which nobody is there to answer is a no, and that a stranger's words
taint the whole run. Not decided here: the rules (``broker.permissions``).

Rules a maintainer keeps: the person is shown what will run, and all of it that fits; anything but
a clear yes is a no; taint is never taken back, since what was read stays in the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from broker.calls import Call
from broker.capabilities.terminal import Terminal
from broker.harness.script import ToolCall
from broker.harness.show import call_text, plain
from broker.permissions.effects import READ, effects, untrusted
from broker.permissions.modes import Mode
from broker.permissions.rules import judge
from broker.resolve import Resolver

Ask = Callable[[str, Mapping[str, object], str], bool]
_WIDTH = 2_000  # characters of a call that a person is asked about


@dataclass(frozen=True, slots=True)
class Approval:
    """
    What the rules and the person say: why a call is denied, or None.

    ``brings`` says that its result may be a stranger's words, ``changes`` that it may change
    something.
    """

    denied: str | None
    brings: bool
    changes: bool


@dataclass(slots=True)
class Approver:
    """
    The permission rules of one run.

    ``said_yes`` are the effects that the person said yes to beforehand; ``ask`` asks them about a
    call with any other, and is None when nobody can be asked. ``tainted_by`` names the first call
    that brought a stranger's words.
    """

    resolver: Resolver
    said_yes: Collection[str] = ()
    ask: Ask | None = None
    tainted_by: str = field(default="")

    def answer(
        self, tool: str, arguments: dict[str, object], mode: Mode, read: Call | None = None
    ) -> Approval:
        """
        Return whether a call that the ticket allowed may run; the person may be asked.

        ``read`` is what the session resolved it to; without one it is resolved here.
        """
        call = read or self.resolver.resolve(tool, arguments)
        changes = bool(effects(call) - {READ})
        return Approval(self._denied(call, arguments, mode, ask=True), untrusted(call), changes)

    def refused(
        self, tool: str, arguments: dict[str, object], mode: Mode, read: Call | None = None
    ) -> str | None:
        """Return why a call must not run, whoever says yes; nobody is asked."""
        call = read or self.resolver.resolve(tool, arguments)
        return self._denied(call, arguments, mode, ask=False)

    def taint(self, call: str) -> None:
        """Remember that a stranger's words were read."""
        self.tainted_by = self.tainted_by or call

    def _denied(
        self, call: Call, arguments: dict[str, object], mode: Mode, *, ask: bool
    ) -> str | None:
        found = judge(
            call,
            arguments,
            mode=mode,
            said_yes=self.said_yes,
            tainted=bool(self.tainted_by),
        )
        if found.answer == "allow":
            return None
        if found.answer == "refuse":
            return f"`{call.tool}` must not run: {found.reason}"
        if not ask:
            return None
        if self.ask is None:
            who = "nobody is here to be asked"
            return f"`{call.tool}` needs a person's yes ({found.reason}), and {who}"
        if self.ask(call.tool, arguments, found.reason):
            return None
        return f"the person said no to `{call.tool}`"


def ask_at(terminal: Terminal) -> Ask | None:
    """Return what asks at a terminal, or None where nobody sits at it."""
    if not terminal.is_tty():
        return None

    def ask(tool: str, arguments: Mapping[str, object], why: str) -> bool:
        terminal.write(f"  {_shown(tool, arguments)}\n")
        typed = terminal.read_line(f"  may it run ({plain(why)})? [y/N] ")
        return typed is not None and typed.strip().lower() in ("y", "yes")

    return ask


def _shown(tool: str, arguments: Mapping[str, object]) -> str:
    """Return a call for the person who decides; what does not fit is counted, never hidden."""
    call = ToolCall(tool, arguments)
    whole = call_text(call, None)
    missing = len(whole) - _WIDTH
    return whole if missing <= 0 else f"{call_text(call, _WIDTH)} ({missing} more characters)"
