"""
Which conversation a request belongs to, and what in it is new.

An agent sends its whole conversation again with each request, and beside it asks other things:
titles, summaries, what its subagents ask. Decided here: which requests are one conversation, and
which calls and results of a request were not seen before. Not decided here: what is written of it
(``scribe``).

What is believed, in this order: what the agent's own headers say; the ids of calls that a
conversation's answers made, when their results come back; the longest beginning that two requests
share. A request without tools that fits nowhere is a question on the side; one with tools is
the main conversation's if there is none yet, or if it is asked within the very same instructions
and tools as that (it was compacted, or begun anew), and else a subagent's.

Rules a maintainer keeps: names are given in order and never again; each call is new once for each
time that a model made it, and each result once for each call; memory is bounded.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from broker.capture.wires.said import CallResult, ModelCall, SaidMessage, SaidReply, SaidRequest
from broker.limits import MAX_CAPTURE_CALLS, MAX_CAPTURE_CONVERSATIONS

MAIN: Final = "main"
_MOVING: Final = 2  # messages at the end that an agent may send differently the next time
_MAX_NAMES: Final = 10 * MAX_CAPTURE_CALLS
_LATEST: Final = 32  # messages at the end among which results of the last calls stand


class Owner(NamedTuple):
    """Whose a request is, as its headers say: a name, and whether a subagent's; "" for nothing."""

    key: str = ""
    helper: bool = False


class _Names:
    """What each id of a call stands for: itself, or our name of a call that came without one."""

    def __init__(self) -> None:
        self._names: OrderedDict[str, str] = OrderedDict()

    def put(self, id_: str, ours: str) -> None:
        """Keep in mind which call an id stands for."""
        if len(self._names) >= _MAX_NAMES:
            self._names.popitem(last=False)
        self._names[id_] = ours

    def get(self, id_: str) -> str:
        """Return which call an id stands for; "" where it was never seen."""
        return self._names.get(id_, "")


@dataclass(slots=True)
class Conversation:
    """
    One conversation, as far as it is kept in mind.

    ``sent`` is what its last request sent, ``waiting`` how many of its requests are unanswered,
    ``open`` the calls whose results have not come back, ``nameless`` our names of those that came
    without an id. ``known`` is one for all conversations of a run.
    """

    name: str
    api: str
    owner: Owner
    frame: str
    known: _Names
    sent: tuple[str, ...] = ()
    requests: int = 0
    waiting: int = 0
    finished: bool = False  # its last answer was whole and made no call
    made: int = 0  # calls whose provider gives them no id
    nameless: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_CAPTURE_CALLS))
    open: OrderedDict[str, ModelCall] = field(default_factory=OrderedDict)

    def issue(self, call: ModelCall) -> ModelCall:
        """Keep in mind that a call was made, and return it with an id."""
        if not call.id:
            call = replace(call, id=f"{self.name}-{self.made}")
            self.made += 1
            self.nameless.append(call.id)
        if len(self.open) >= MAX_CAPTURE_CALLS:
            self.open.popitem(last=False)
        self.open[call.id] = call
        self.known.put(call.id, call.id)
        return call


@dataclass(frozen=True, slots=True)
class New:
    """
    What a request brings. ``calls`` are those that no answer was seen to make.

    ``anew`` says that the conversation goes on from another beginning.
    """

    name: str
    results: tuple[CallResult, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    anew: bool = False


def owner_of(marks: Mapping[str, str]) -> Owner:
    """
    Return whose a request is, as its headers say.

    >>> owner_of({"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"})
    Owner(key='claude a', helper=True)
    >>> owner_of({})
    Owner(key='', helper=False)
    """
    if "x-claude-code-session-id" in marks or "x-claude-code-agent-id" in marks:
        agent = marks.get("x-claude-code-agent-id", "")
        return Owner(f"claude {agent}", bool(agent))
    if "x-session-id" in marks:
        return Owner(f"session {marks['x-session-id']}", bool(marks.get("x-parent-session-id")))
    if "thread-id" in marks or "x-codex-parent-thread-id" in marks:
        helper = bool(marks.get("x-codex-parent-thread-id") or marks.get("x-openai-subagent"))
        return Owner(f"thread {marks.get('thread-id', '')}", helper)
    if marks.get("x-interaction-type") == "conversation-subagent":
        return Owner("subagent", helper=True)
    return Owner()


class Conversations:
    """
    The conversations of one run.

    >>> from broker.capture.wires.said import digest
    >>> hello = SaidRequest("m", (SaidMessage("user", digest("hello")),), ("read",), "frame")
    >>> seen = Conversations()
    >>> seen.asked("openai.chat", hello, Owner()).name
    'main'
    >>> seen.answered("main", SaidReply("", (ModelCall("c1", "read", {}),)))
    (ModelCall(id='c1', name='read', arguments={}),)
    >>> told = SaidMessage("user", digest("told"), (), (CallResult("c1", "", "text"),))
    >>> more = SaidRequest("m", (*hello.messages, told), ("read",), "frame")
    >>> [seen.asked("openai.chat", more, Owner()).results for _ in range(2)]
    [(CallResult(id='c1', name='read', content='text', failed=None),), ()]
    """

    def __init__(self) -> None:
        self._all: OrderedDict[str, Conversation] = OrderedDict()
        self._known = _Names()
        self._helpers = 0
        self._asides = 0

    def asked(self, api: str, asked: SaidRequest, owner: Owner) -> New:
        """Take in a request, and return which conversation it is of and what it brings."""
        found, shared = self._found(api, asked, owner)
        anew = False
        if found is None:
            found, shared = self._begun(api, asked, owner), 0
            anew = found.requests > 0
        fresh = asked.messages[shared:]
        # What a conversation was begun with elsewhere is its past, and no call of this run.
        calls = () if anew or not found.requests else tuple(_unseen(found, fresh))
        results = tuple(_told(found, fresh))
        found.sent = tuple(message.digest for message in asked.messages)
        found.frame = asked.frame
        found.requests += 1
        found.waiting += 1
        found.finished = False
        self._all.move_to_end(found.name)
        return New(found.name, results, calls, anew)

    def answered(self, name: str, reply: SaidReply) -> tuple[ModelCall, ...]:
        """Take in the answer to a conversation's request, and return the calls that it makes."""
        found = self._all.get(name)
        if found is None:
            return ()
        found.waiting = max(0, found.waiting - 1)
        found.finished = reply.failure is None and not reply.calls
        return tuple(found.issue(call) for call in reply.calls)

    def _found(self, api: str, asked: SaidRequest, owner: Owner) -> tuple[Conversation | None, int]:
        """Return the conversation that a request goes on with, and how much they share."""
        ids = {result.id for m in asked.messages[-_LATEST:] for result in m.results}
        best: Conversation | None = None
        rank = (False, 0)
        for each in reversed(self._all.values()):  # of equal ones, the latest
            if each.api != api:
                continue
            shared = _shared(each.sent, asked.messages)
            mine = not ids.isdisjoint(each.open)
            theirs = each.owner == owner and _goes_on(each, asked, shared)
            if (mine or theirs) and (mine, shared) > rank:
                best, rank = each, (mine, shared)
        return best, rank[1]

    def _begun(self, api: str, asked: SaidRequest, owner: Owner) -> Conversation:
        """Return the conversation that a request begins, or begins anew."""
        main = self._all.get(MAIN)
        if not asked.tools:
            self._asides += 1
            name = f"side-{self._asides}"
        elif main is None and not owner.helper:
            name = MAIN
        elif main is not None and _is_of(main, api, asked, owner):
            return main
        else:
            self._helpers += 1
            name = f"sub-{self._helpers}"
        made = self._all[name] = Conversation(name, api, owner, asked.frame, self._known)
        if len(self._all) > MAX_CAPTURE_CONVERSATIONS:
            del self._all[next(each for each in self._all if each not in (MAIN, name))]
        return made


def _shared(sent: Sequence[str], messages: Sequence[SaidMessage]) -> int:
    """Return how many messages two requests begin with alike."""
    pairs = enumerate(zip(sent, messages, strict=False))
    return next(
        (at for at, (one, other) in pairs if one != other.digest), min(len(sent), len(messages))
    )


def _goes_on(each: Conversation, asked: SaidRequest, shared: int) -> bool:
    """Return whether a request that shares a beginning with a conversation goes on with it."""
    if not shared or shared < len(each.sent) - (_MOVING if len(each.sent) > 2 * _MOVING else 0):
        return False
    if len(asked.messages) > len(each.sent):
        return True
    # The same request again is a second try, unless the first has its answer or waits for it:
    # then it is somebody else's with the same errand.
    return not each.finished and not each.waiting


def _is_of(main: Conversation, api: str, asked: SaidRequest, owner: Owner) -> bool:
    """Return whether a request that shares nothing with the main conversation is still its own."""
    alike = (main.api, main.owner) == (api, owner)
    return alike and not main.waiting and (bool(owner.key) or main.frame == asked.frame)


def _unseen(found: Conversation, fresh: Sequence[SaidMessage]) -> Iterator[ModelCall]:
    """Yield the calls that the model made, as its agent says, in an answer that was not read."""
    for message in fresh:
        for call in message.calls:
            if not call.id or found.known.get(call.id):
                continue
            # An agent may give an id of its own to a call that came without one.
            ours = next((i for i in found.nameless if _alike(found.open.get(i), call)), None)
            if ours is None:
                yield found.issue(call)
            else:
                found.nameless.remove(ours)
                found.known.put(call.id, ours)


def _alike(one: ModelCall | None, other: ModelCall) -> bool:
    return one is not None and (one.name, one.arguments) == (other.name, other.arguments)


def _told(found: Conversation, fresh: Sequence[SaidMessage]) -> Iterator[CallResult]:
    """Yield the results that come back for the first time."""
    last = {r.id: r for message in fresh for r in message.results if r.id}
    for id_, result in last.items():
        call = found.open.pop(found.known.get(id_) or id_, None)
        if call is not None:
            yield replace(result, id=call.id, name=result.name or call.name)
    nameless = [r for message in fresh for r in message.results if not r.id]
    for result in nameless:  # they come in the order of their calls
        id_ = next((i for i, call in found.open.items() if call.name == result.name), "")
        if id_:
            del found.open[id_]
            if id_ in found.nameless:
                found.nameless.remove(id_)
            yield replace(result, id=id_)
