"""
One person with one agent: a session, and those that follow it.

Decided here: that a session begins with a line that the person types, since nothing else mints;
that a narrowing is a delegation to the agent itself, on the receipt of the session; that a scope
which takes the place of another is a root of its own, by the line that says so; and that a
conversation that is gone on with is a session that names the one before (ADR-0037). Not decided
here: how a call is handled (``broker.harness.pipeline``)
and which lines are commands (``slash``).

Rules a maintainer keeps: what a person typed is read when they typed it, so that an instant stands
where they meant it; a conversation that holds a stranger's words is tainted in a later session too;
no session is left open, whatever ends the sitting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import join
from typing import Any, Final, Protocol

from broker.agentloop.conversation import Dialogue
from broker.agentloop.dialect import ModelQuery, ToldTool
from broker.agentloop.models import ProviderClient, ProviderModels
from broker.agentloop.providers import ModelChoice
from broker.errors import InputError
from broker.harness.agent import Agent
from broker.harness.composition import RECORDS, Composition
from broker.harness.held import OwnSession
from broker.harness.outcome import Watcher
from broker.harness.registry import Registered
from broker.intent import TypedLine
from broker.limits import MAX_AGENT_TURNS
from broker.receipt.entry import Entry
from broker.records.audits import ToolAudits
from broker.records.recorder import Recorder, keeps_bodies
from broker.records.store import RecordStore
from broker.scope import render
from broker.session import Session
from broker.sessions.custody import FIRST
from broker.sessions.following import Earlier
from broker.sessions.ground import Outside
from broker.sessions.typedscope import typed_scope
from broker.ticket import Ticket, describe

NAME: Final = "broker-agent"
PERSON: Final = "person"  # who asks for a narrowing, and says a line, in a receipt


class ClosingClient(ProviderClient, Protocol):
    """A client with connections that are closed when a session ends."""

    def close(self) -> None:
        """Close them."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """
    What a sitting is given besides its composition.

    ``client`` makes the client of a model over a recorder; ``chance`` returns so many random
    bytes; ``tell`` is given the model's text as it comes, and ``watcher`` what is called.
    """

    client: Callable[[Recorder], ClosingClient]
    chance: Callable[[int], bytes]
    tell: Callable[[str, str], object]
    watcher: Watcher
    warn: Callable[[str], object]


@dataclass(slots=True)
class _Running:
    """One session at work."""

    session: Session
    agent: Agent
    client: ClosingClient
    store: RecordStore


@dataclass(slots=True)
class Sitting:
    """
    A person's sitting; see ``Surroundings`` for what it is given.

    Args:
        composition: the harness.
        choice: the model.
        prompt: what the model is told first.
        around: what it is given besides.
        texts: the scope that the next session begins with.
        before: the session that the next one follows.
        talk: the conversation so far.
        turns: how many turns an agent takes for one line, at most.
    """

    composition: Composition
    choice: ModelChoice
    prompt: str
    around: Surroundings
    texts: Sequence[str] = ()
    before: Earlier | None = None
    talk: Dialogue = field(default_factory=Dialogue)
    turns: int = MAX_AGENT_TURNS
    over: bool = False
    ended: list[Session] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    _now: _Running | None = None
    _tainted_by: str = ""

    def __post_init__(self) -> None:
        if self.before is not None:
            found = brought_words(self.before.entries, self.composition.registry.current)
            self._tainted_by = found
        self.texts = self.read(self.texts)

    # ── what a person does ──

    def say(self, line: TypedLine) -> str:
        """
        Have the agent follow a line of the person; return the last thing it said.

        Raises:
            BrokerError: the session cannot begin, the model does not answer, a limit is reached,
                or the declared check does not pass.
        """
        if self._now is None:
            self._now = self._begin(line)
        else:
            self._now.session.note(line.text, source=PERSON)
        agent = self._now.agent
        if agent.verify is not None:
            agent.verify.failed = 0
        self.talk.say(line.text)
        return agent.run()

    def narrow(self, texts: Sequence[str]) -> str:
        """
        Narrow the ticket; return its caveats as they are then.

        Raises:
            ScopeError: a text is malformed.
            AttenuationError: it would widen, which is what replacing is for.
            StoreError: it cannot be recorded.
        """
        if self._now is None:
            self.texts = (*self.texts, *self.read(texts))
        else:
            self._now.session.delegate(texts, asked_by=PERSON, holder=FIRST)
        return self.described()

    def replace(self, texts: Sequence[str], line: TypedLine) -> str:
        """
        Put another scope in the place of the agent's; return its caveats.

        Args:
            texts: the whole scope.
            line: the line of the person that says so, by which it is minted.

        Raises:
            ScopeError, InputError: a text is malformed; nothing has changed.
            StoreError: it cannot be recorded.
        """
        if self._now is None:
            self.texts = self.read(texts)
        else:
            self._now.session.replace(texts, line=line)
            for warning in self._now.session.warnings:
                self.around.warn(warning)
        return self.described()

    def described(self) -> str:
        """Return what the agent may do, in lines."""
        if self._now is None:
            spelled = " ".join(self.texts) or "everything is permitted: no scope was typed"
            return f"the next line begins a session under: {spelled}"
        ticket = self.ticket()
        spent = self._now.session.spent(ticket)
        lines = [*describe(ticket)] or ["everything is permitted: no scope was typed"]
        if ticket.least is not None and spent is not None:
            lines.append(f"spent: {spent[0]} calls")
        held = f"session {self._now.session.sid}: the agent holds ticket {ticket.id}"
        return "\n".join([held, *lines])

    def ticket(self) -> Ticket:
        """
        Return the ticket that the agent holds now.

        Raises:
            InputError: no session has begun.
        """
        return self.session().holds(FIRST)[0]

    def session(self) -> Session:
        """
        Return the session at work.

        Raises:
            InputError: none has begun.
        """
        if self._now is None:
            raise InputError("no session has begun: it does with the next line that you type")
        return self._now.session

    def end(self, reason: str) -> None:
        """
        Seal the session at work, if one is.

        Raises:
            StoreError: its seal cannot be written.
        """
        now, self._now = self._now, None
        if now is None:
            return
        self.ended.append(now.session)
        try:
            now.client.close()
            for record in now.store.read().records:
                for name, count in getattr(record, "usage", {}).items():
                    self.usage[name] = self.usage.get(name, 0) + count
        finally:
            now.session.seal(reason)

    # ── how it comes to be ──

    def read(self, texts: Sequence[str]) -> tuple[str, ...]:
        """
        Return a scope as it stands from now on: instants resolved, policies in place of names.

        Raises:
            ScopeError, PolicyError: a text is malformed.
        """
        made = self.composition
        at = made.world.clock.now_ns()
        scope = typed_scope(texts, at=at, home=made.home, catalogs=made.catalogs)
        for warning in scope.warnings:
            self.around.warn(warning)
        return tuple(render(scope.caveats))

    def _begin(self, line: TypedLine) -> _Running:
        made, before = self.composition, self.before
        clock, environ = made.world.clock, made.world.process.environ
        session = Session.open(
            self.texts,
            workspace=made.root,
            home=made.home,
            intent=line,
            agent=NAME,
            outside=Outside(clock.now_ns, self.around.chance),
            needs_enforcement=before is not None and before.needs_enforcement,
            auditor=made.config.auditor(),
            conceal=before.conceal if before is not None else (),
            after=before.after if before is not None else None,
        )
        try:
            store = RecordStore(made.world.fs.below(join(str(session.folder), RECORDS)))
            recorder = Recorder(
                store,
                clock,
                salt=self.around.chance(32),
                bodies=keeps_bodies(environ),
                provider=self.choice.endpoint.name,
            )
            audits = ToolAudits(store, clock, salt=self.around.chance(32))
            client = self.around.client(recorder)
            models = ProviderModels(
                client,
                self.choice.dialect,
                self._question,
                self.around.tell,
                self.talk,
                self.turns,
            )
            agent = made.agent(
                OwnSession(session), session.sid, models, self.around.watcher, audits.watch
            )
        except BaseException:
            session.seal("interrupted")
            raise
        agent.pipeline.approver.tainted_by = self._tainted_by
        return _Running(session, agent, client, store)

    def _question(self) -> ModelQuery:
        tools = self.composition.registry.current.tools.values()
        told = tuple(ToldTool(tool.name, tool.about, tool.schema) for tool in tools)
        return ModelQuery(self.choice.model, self.prompt, told)


def brought_words(entries: Sequence[Entry], registered: Registered) -> str:
    """
    Return the first call of a receipt that may have brought a stranger's words, or nothing.

    It is told by what is recorded: an address, a server, or a tool that nobody here knows.
    """
    for entry in entries:
        data: Mapping[str, Any] = entry.data
        if entry.kind != "decision" or data.get("decision") != "allow":
            continue
        subjects = data.get("subjects")
        rows = subjects if isinstance(subjects, list) else []
        urls = any(isinstance(row, dict) and "url" in row for row in rows)
        tool = registered.tools.get(str(data.get("tool")))
        if urls or "server" in data or tool is None or tool.server:
            return str(data.get("call") or "an earlier call")
    return ""
