"""
What a person is told when an agent is started under a ticket.

Decided here: the broker's own lines at a launch, each said once. Not decided here: what is told of
refusals while it runs (``broker.telling``), and when anything is said (``broker.launch``).

Rules a maintainer keeps: a line is escaped, since what an agent or a workspace named may stand in
it; no value of a key is ever said, only the name of its variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TextIO

from broker.agents.adapter import Adapter, Plain, Prepared
from broker.agents.credentials import handed_on
from broker.receipt.display import escaped
from broker.receipt.sealing import AuditorKey
from broker.session import Session


@dataclass(frozen=True, slots=True)
class Streams:
    """Where the broker's own lines go; the agent's streams are not touched."""

    stderr: TextIO

    def say(self, text: str) -> None:
        """Print one line that is the broker's."""
        with suppress(OSError, ValueError):
            print(f"broker: {escaped(text)}", file=self.stderr, flush=True)


def say_begun(
    session: Session,
    how: Adapter,
    program: str,
    auditor: AuditorKey | None,
    streams: Streams,
    *,
    quiet: bool,
) -> None:
    """
    Say what the person should know of a session that was opened.

    Args:
        session: it.
        how: how the agent is held.
        program: what was typed for it.
        auditor: whose key the receipt is forward-secure for.
        streams: where it is said.
        quiet: say only warnings, and that nothing holds a program without a hook.
    """
    for warning in session.warnings:
        streams.say(f"warning: {warning}")
    if auditor is not None and not quiet:
        _say_auditor(session, auditor, streams)
    if how.name == Plain.name:
        streams.say(f"`{program}` has no hook: it is held to what it asks the broker")
    if not quiet:
        for sentence in how.unseen():
            streams.say(f"not seen by the hook: {sentence}")


def _say_auditor(session: Session, auditor: AuditorKey, streams: Streams) -> None:
    """Say what the auditor must have from before a theft: else a thief can begin it anew."""
    streams.say(
        f"forward-secure for auditor {auditor.name}, who should note now, and elsewhere, how "
        f"session {session.sid} began: {session.head}"
    )


def say_keys(agent: str, environ: Mapping[str, str], prepared: Prepared, streams: Streams) -> None:
    """Say once by which names an agent's tools find the key of its provider."""
    worth = {name: value for name, value in environ.items() if name not in prepared.tokens}
    names = handed_on(agent, worth, prepared.keys)
    if names:
        found = ", ".join(f"`{name}`" for name in names)
        streams.say(f"tools can read {found} from their environment, as the agent does")


def say_beside(servers: Sequence[str], streams: Streams) -> None:
    """Say once which MCP servers the gateway does not stand before."""
    if servers:
        found = ", ".join(f"`{name}`" for name in servers)
        streams.say(
            f"no gateway before {found}: their tools are held, their resources and prompts are not "
            "(a server with an address needs its key in a header, and no sign-in)"
        )
