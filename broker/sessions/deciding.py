"""
One call on its way through a session: judged, weighed against second opinions, recorded, debited.

Decided here: in which order that happens, and that the session goes on meanwhile with other calls.
Not decided here: what passes (``broker.guard``), whom else to ask (``broker.opinions``).

A call that the ticket allows, in a session with opinions, is judged twice. The first time nothing
is recorded and nothing debited; then the opinions are asked, with the lock given back, since they
may take seconds; then it is judged anew, for the ticket may have ended meanwhile or its calls been
spent, and the strictest answer is recorded.

Rules a maintainer keeps: nothing is answered that is not recorded; nobody is asked inside the
lock; what a gateway meets after a hook was allowed is not asked about again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker.calls import Call, Decision, Refusal
from broker.errors import BrokerError
from broker.events import CallDecided, OpinionFailed
from broker.guard import TicketGuard
from broker.opinions.counsel import Weighing
from broker.receipt.entry import Entry
from broker.sessions.counting import debited
from broker.sessions.ground import Ground
from broker.sessions.grouped import Grouped
from broker.sessions.jointly import check_all
from broker.sessions.records import Data, closed, decision_data
from broker.sessions.revoking import Revoking
from broker.sessions.testimony import Testimony


@dataclass(frozen=True, slots=True)
class Undecided:
    """What is to be decided; see ``Session.decide``."""

    call: Call
    call_id: str
    ticket: str | None
    actor: str
    again: bool
    among: Sequence[str]
    veto: Refusal | None
    durable: bool


class Decides(Grouped, Testimony):
    """The part of a session that decides calls."""

    allowed: int
    refused: int
    rehearsing: bool
    _ground: Ground
    _revoking: Revoking

    @abstractmethod
    def _now(self) -> int:
        """Return the instant, inside the lock."""

    @abstractmethod
    def _append(self, kind: str, data: Data, at: int, *, durable: bool = True) -> Entry | None:
        """Write an entry, inside the lock; None when that cannot be."""

    def _decided(self, asked: Undecided, anew: Callable[[], Call]) -> Decision:
        """
        Decide a call, with all opinions there are.

        Args:
            asked: what is to be decided.
            anew: reads the call once more.
        """
        weighing = self._ground.counsel.about(asked.call, asked.actor)
        told_of: list[CallDecided] = []
        decision = self._judged(asked, weighing, told_of)
        if decision is None:
            for name, fault in weighing.hear(anew).faults():
                self.bus.publish(OpinionFailed(self._ground.outside.clock(), self.sid, name, fault))
            decision = self._judged(asked, weighing, told_of)
        assert decision is not None  # noqa: S101 - the opinions have been heard
        self._tell(told_of, durable=asked.durable)
        return decision

    def _judged(
        self, asked: Undecided, weighing: Weighing, told_of: list[CallDecided]
    ) -> Decision | None:
        """Judge and record a call; None: the opinions are to be heard, and nothing has happened."""
        call, call_id, again = asked.call, asked.call_id, asked.again
        guards: tuple[TicketGuard, ...] = ()

        def witness(decision: Decision, guard: TicketGuard | None) -> Decision:
            holder = guard.ticket.id if guard else ""
            decision = weighing.weigh(decision)
            self._revoking.record(decision, at)
            data = decision_data(call, decision, call_id=call_id, ticket=holder, actor=asked.actor)
            data |= debited(decision, guard)
            if also := [each.ticket.id for each in guards if each is not guard]:
                data["also"] = also
            if weighing.heard is not None and weighing.heard.answers:
                data["opinions"] = weighing.heard.data()
            entry = self._append("decision", data, at, durable=asked.durable)
            if entry is None:
                return closed(self._over)
            found = (at, self.sid, entry.n, call_id, call.tool, holder, asked.actor, decision)
            told_of.append(CallDecided(*found))
            return decision

        with self._lock:
            at = self._now()
            if self._over:
                decision = closed(self._over)
            else:
                try:
                    guards = self._tickets.guards(
                        call, asked.ticket, asked.actor, asked.among, at, again=again
                    )
                    veto = asked.veto or self._revoking.look(guards, unsettled=again)
                    asks = again and not veto
                    met = self._tickets.stands(call, asked.ticket, at, call_id) if asks else None
                except BrokerError as error:
                    decision = witness(closed(str(error)), None)
                else:
                    if met is not None:
                        return met
                    if veto is not None:
                        decision = witness(Decision(veto), guards[0])
                    elif weighing.wanted and _leans(guards, call, at):
                        weighing.ticket = guards[0].ticket.id
                        return None
                    else:
                        decision = check_all(guards, call, at, witness)
                    if decision.allowed and not again:
                        self._tickets.stand(call, guards, call_id)
            if not self.rehearsing:
                self.allowed += decision.allowed
                self.refused += not decision.allowed
        return decision


def _leans(guards: Sequence[TicketGuard], call: Call, at: int) -> bool:
    """Whether all these tickets would let a call through now; nothing is debited or reserved."""
    return all(
        guard.judge(call, at, guard.spent() if guard.counted else None).allowed for guard in guards
    )
