"""
Decisions outside a session: nothing is run, spent or recorded.

Decided here: which catalogs, policies and folders a dry run stands on, and what may be kept
between two questions: a scope is read once, the file system is looked at for every call. Not
decided here: anything about a call; that is ``broker.resolve`` and ``broker.authorize``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.authorize import Spent, authorize
from broker.calls import Decision
from broker.intent import digest, typed_text
from broker.scope import Scope, parse_scope
from broker.ticket import Ticket, mint

if TYPE_CHECKING:
    from broker.catalogs import Catalogs
    from broker.home import Home
    from broker.resolve import Resolver

_KEPT: Final = 4_096  # scopes kept at once

# A dry run's ticket never leaves the process, so its key only has to be one.
_KEY: Final = bytes(32)
_SID: Final = "dry-run"


class DryRun:
    """What is needed to answer questions about one workspace."""

    def __init__(self, workspace: str, home: Home, *, catalogs: Catalogs | None = None) -> None:
        self.workspace = workspace
        self.home = home
        self._catalogs = catalogs
        self._tickets: dict[tuple[tuple[str, ...], int | None, bool], Ticket] = {}

    @property
    def catalogs(self) -> Catalogs:
        """What every known tool's arguments mean here, read when first needed."""
        if self._catalogs is None:
            from broker.catalogs import load_catalogs

            self._catalogs = load_catalogs(Path(self.workspace), self.home.config)
        return self._catalogs

    @cached_property
    def resolver(self) -> Resolver:
        """Reads a call the way the kernel and the network will."""
        from broker.resolve import Resolver

        return Resolver(self.workspace, self.catalogs, own=self.home.own())

    def scope(self, texts: Sequence[str], at: int, *, past_ok: bool = False) -> Scope:
        """
        Return the scope that was typed.

        Raises:
            ScopeError: a text is malformed.
            CatalogError: a catalog is.
        """
        if not _needs_catalogs(texts):
            return parse_scope(texts, at=at, past_ok=past_ok)
        from broker.policy import policy_loader

        groups = self.catalogs.groups()
        policies = policy_loader(policy_folders(self.home), groups=groups)
        return parse_scope(
            texts,
            at=at,
            groups=groups,
            policies=policies,
            past_ok=past_ok,
            lookup=self.catalogs.known,
        )

    def ticket(
        self, texts: Sequence[str], at: int, *, past_ok: bool = False, intent: str = ""
    ) -> Ticket:
        """
        Return a ticket for the scope as typed at the instant ``at``.

        Args:
            texts: the scope.
            at: nanoseconds since the Unix epoch.
            past_ok: read an ``until`` that is over already.
            intent: the typed line that the ticket is bound to, which ``decide`` takes too.

        Raises:
            ScopeError: a text is malformed.
            InputError: the scope looks into the intent, and there is none.
        """
        name = (intent, *texts)
        found = self._tickets.get((name, None, past_ok)) or self._tickets.get((name, at, past_ok))
        if found is None:
            caveats = self.scope(texts, at, past_ok=past_ok).caveats
            bound = digest(intent) if intent else ""
            found = mint(caveats, key=_KEY, sid=_SID, minted_at=at, intent=bound)
            # Only `until` depends on when it was typed.
            timed = any(c.kind == "until" for c in caveats)
            if len(self._tickets) >= _KEPT:
                self._tickets.clear()
            self._tickets[name, at if timed else None, past_ok] = found
        return found

    def decide(
        self,
        ticket: Ticket,
        tool: object,
        arguments: object,
        *,
        at: int | None,
        spent: Spent = 0,
        server: str | None = None,
        cwd: str | None = None,
        intent: str = "",
    ) -> Decision:
        """Return what would be decided about one call. Total, like what it calls."""
        call = self.resolver.resolve(tool, arguments, server=server, cwd=cwd)
        return authorize(ticket, call, at, spent, line=typed_text(intent) if intent else None)


def policy_folders(home: Home) -> tuple[Path, ...]:
    """Return where the person's own policies lie; they come before the shipped ones."""
    return (home.config / "policies",)


def _needs_catalogs(texts: Sequence[str]) -> bool:
    """Whether a text may name a policy or a group of tools, or look into a tool's arguments."""
    return any("@" in text or "(" in text for text in texts)
