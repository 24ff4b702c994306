"""
A session as a ``with`` block, and the ticket that code inside of it works under.

Decided here: where the ticket of a block comes from, and that it ends with its block. Outside a
run a session is opened, whose scope the caller vouches that a person typed. Under ``broker run``
nothing is minted: the block works under the run's own ticket, narrowed by the scope it gives.
Not decided here: what passes (``broker.authorize``), and what is recorded (``broker.session``).

Rules a maintainer keeps: a block inside a block only narrows; code that no block surrounds has
no ticket, and so may do nothing; a block that ends by an error is sealed as interrupted.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from broker.bounds import Bounds
from broker.calls import Decision
from broker.catalogs import load_catalogs
from broker.config import load_config
from broker.errors import InputError
from broker.home import Home
from broker.intent import TypedLine
from broker.mcp.offer import Offer, bounds_of
from broker.service.client import SOCKET_VARIABLE, SessionClient
from broker.session import MAIN, Session
from broker.sessions.ground import Outside

_held: ContextVar[Holder | None] = ContextVar("broker_holding", default=None)
_numbers: Final = count(1)


class _Delegates(NamedTuple):
    """What one holder has handed down already, by the delegate's name and the added texts."""

    made: dict[tuple[str, tuple[str, ...]], Holder]
    lock: threading.Lock


@dataclass(frozen=True, slots=True)
class Holder:
    """
    The ticket that a block works under; ``ticket`` is its id or wire form, None for the root's.

    ``actor`` is the agent's name in the receipt. Safe among threads.
    """

    asked: Session | SessionClient
    actor: str = MAIN
    ticket: str | None = None
    _delegates: _Delegates = field(
        default_factory=lambda: _Delegates({}, threading.Lock()), repr=False, compare=False
    )

    @property
    def sid(self) -> str:
        """
        The session's name, for ``broker receipt``.

        Raises:
            StoreError: the session is another process's, and cannot be asked.
        """
        if isinstance(self.asked, Session):
            return self.asked.sid
        return str(self.asked.describe().get("sid", ""))

    def check(
        self,
        tool: str,
        arguments: object,
        *,
        call_id: str = "",
        server: str | None = None,
        cwd: str | None = None,
    ) -> Decision:
        """
        Decide a call; an allowed one is debited, and the answer stands in the receipt already.

        Args:
            tool: the tool's name, as scopes and catalogs spell it.
            arguments: its arguments, a JSON object; whatever else it is, is refused.
            call_id: a name of the caller's own for the call; ``result`` takes it again.
            server: the MCP server that answers, as the caller's own configuration spells it.
            cwd: the folder that relative paths start from; the workspace by default.
        """
        if isinstance(self.asked, Session):
            return self.asked.decide(
                tool,
                arguments,
                call_id=call_id,
                ticket=self.ticket,
                server=server,
                actor=self.actor,
                cwd=cwd,
            )
        return self.asked.decide(
            tool, arguments, call_id=call_id, server=server, cwd=cwd, actor=self.actor
        )

    def result(self, call_id: str, *, ok: bool, output: object = None) -> None:
        """
        Record how an allowed call ended: success, and a digest of a JSON value.

        Raises:
            StoreError: it cannot be recorded, and no further call will be allowed.
        """
        self.asked.result(call_id, ok=ok, output=output)

    def narrowed(self, *texts: str, name: str = "delegate") -> AbstractContextManager[Holder]:
        """
        Return a block for a delegate: a narrower ticket that spends from the same budget.

        Args:
            texts: the caveats to add, as ``KEY=VALUE`` texts.
            name: what the delegate is called in the receipt; a number is added to it.

        Raises:
            AttenuationError: it would permit more; ``kind`` names the caveat.
            ScopeError: a text is malformed.
            StoreError: it cannot be recorded.
        """
        return self._child(texts, name).block()

    @contextmanager
    def block(self) -> Iterator[Holder]:
        """Return a block whose code works under this ticket, for as long as it lasts."""
        token = _held.set(self)
        try:
            yield self
        finally:
            _held.reset(token)

    def delegate(self, *texts: str, name: str = "delegate") -> Holder:
        """
        Return what a delegate works under, without a block; the same for the same name and texts.

        Args:
            texts: the caveats to add, as ``KEY=VALUE`` texts.
            name: what the delegate is called in the receipt; a number is added to it.

        Raises:
            AttenuationError, ScopeError, StoreError: as for ``narrowed``.
        """
        with self._delegates.lock:
            found = self._delegates.made.get((name, texts))
            if found is None:
                found = self._delegates.made[name, texts] = self._child(texts, name)
            return found

    def bounds(self) -> Bounds:
        """
        Return what the ticket's lists come to, for showing only: the session decides.

        Raises:
            StoreError: the session is another process's, and cannot be asked.
            InputError, VerificationError: the ticket is none of this session.
        """
        if isinstance(self.asked, Session):
            return self.asked.find(self.ticket).bounds
        return bounds_of(str(self.asked.describe().get("ticket", "")))

    def offer(self, server: str | None = None) -> Offer:
        """
        Return what the ticket could ever allow, so that a model is not shown the rest.

        Args:
            server: the MCP server whose tools are shown; by default they are the agent's own.

        Raises:
            StoreError, InputError, VerificationError: as for ``bounds``.
            CatalogError: a catalog of the workspace is not understood.
        """
        if isinstance(self.asked, Session):
            workspace = os.fspath(self.asked.workspace)
        else:
            workspace = str(self.asked.describe().get("workspace", ""))
        return Offer(self.bounds(), load_catalogs(workspace), server)

    def _child(self, texts: Sequence[str], name: str) -> Holder:
        # The process is in the name, since delegates of several may share one session.
        actor = f"agent:{name}:{os.getpid()}-{next(_numbers)}"
        if isinstance(self.asked, Session):
            ticket = self.asked.delegate(
                texts, parent=self.ticket, asked_by=self.actor, holder=actor
            )
            return Holder(self.asked, actor, ticket.id)
        client = self.asked.delegate(*texts, holder=actor, asked_by=self.actor)
        return Holder(client, actor, client.ticket)


def current() -> Holder:
    """
    Return the ticket of the innermost block that surrounds this code.

    A thread has no block until it is given one (``contextvars.copy_context().run(…)``);
    ``asyncio`` hands the block on to its tasks and to ``to_thread``.

    Raises:
        InputError: no block surrounds it.
    """
    held = _held.get()
    if held is None:
        raise InputError(
            "no session is open here: put the code inside `with session(scope=[…]):`",
            code="input.session",
        )
    return held


class session:
    """
    Open a session around a block of code, sync or async, and seal it at the end.

    Args:
        scope: ``KEY=VALUE`` texts. Outside a run the caller vouches that a person typed them, and
            none permits everything; under ``broker run`` they narrow the run's own ticket.
        workspace: the folder that paths are relative to. A run has its own, which stays.
        intent: the line that a person typed, if they did. A run has its own, which stays.
        agent: what runs, for the receipt.
        require_enforcement: refuse calls that nothing holds to the paths and hosts of the scope.
        conceal: what the receipt only commits to, such as ``arguments``.
        home: the broker's folders; the user's by default.
        environ: where a run is looked for; this process's environment by default.
        outside: the clock, the randomness and the bus.

    Raises, where the block begins:
        ScopeError, InputError, ConfigError: something is malformed, or a block is open already.
        AttenuationError: under a run: the scope would permit more than the run's.
        StoreError: the receipt cannot begin, or the run cannot be asked.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     home = Home.find({"BROKER_HOME": folder + "/home"})
    ...     with session(["tools=read"], workspace=folder, home=home, environ={}) as held:
    ...         held.check("read", {}).allowed, held.check("shell", {}).refusal.caveat
    (True, 'tools')
    """

    def __init__(
        self,
        scope: Sequence[str] = (),
        *,
        workspace: str | os.PathLike[str] = ".",
        intent: str | None = None,
        agent: str = "python",
        require_enforcement: bool = False,
        conceal: Sequence[str] = (),
        home: Home | None = None,
        environ: Mapping[str, str] | None = None,
        outside: Outside | None = None,
    ) -> None:
        if isinstance(scope, str):
            raise InputError(f'a scope is a list of texts: ["{scope}"]')
        self._scope = tuple(scope)
        self._workspace = Path(os.path.abspath(workspace))
        self._intent = None if intent is None else TypedLine(intent, "argument")
        self._agent = agent
        self._strict, self._conceal = require_enforcement, tuple(conceal)
        self._environ = os.environ if environ is None else environ
        self._home, self._outside = home, outside
        self._own: Session | None = None
        self._token: Token[Holder | None] | None = None

    def __enter__(self) -> Holder:
        if _held.get() is not None:
            raise InputError(
                "a session is open here already: narrow it with `current().narrowed(…)`"
            )
        held = self._run() if self._environ.get(SOCKET_VARIABLE) else self._opened()
        self._token = _held.set(held)
        return held

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._token is not None:
            _held.reset(self._token)
            self._token = None
        if self._own is not None:
            own, self._own = self._own, None
            own.seal("complete" if kind is None else "interrupted")

    async def __aenter__(self) -> Holder:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def _run(self) -> Holder:
        held = Holder(SessionClient.find(self._environ), "")
        return held._child(self._scope, self._agent) if self._scope else held

    def _opened(self) -> Holder:
        home = self._home or Home.find(self._environ)
        self._own = Session.open(
            self._scope,
            workspace=self._workspace,
            home=home,
            intent=self._intent,
            agent=self._agent,
            needs_enforcement=self._strict,
            auditor=load_config(home.config).auditor(),
            conceal=self._conceal,
            outside=self._outside,
        )
        return Holder(self._own)
