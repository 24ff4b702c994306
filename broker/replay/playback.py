"""
The recorded answers of a run, found again for whoever asks the same.

Decided here: which recorded answer a request gets, and how often it was which rung of the ladder.
Not decided here: what the rungs are (``broker.replay.matching``), how an answer is sent
(``broker.replay.serving``), what comes of a request that was not recorded (``unmatched``).

A request that belongs to no conversation (a list of models, a count of tokens) is known by its
path and body, and is answered as often as it is asked: how often agents do that differs, and no
model says anything. A batch of texts to embed or rank is known in any order
(``broker.replay.retrieval``). Safe among threads.

Rules a maintainer keeps: an answer that was not kept whole is not made up, and counts as unmatched;
what is asked is cleared of secrets before it is compared, as what was recorded is.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from broker.redaction.hiding import Hider
from broker.redaction.trees import hide_tree
from broker.replay.matching import KeptRequest, Ladder, LadderMatch, path_of, shape_of
from broker.replay.normal import Normal
from broker.replay.retrieval import LookupBatch, batch_of, in_order
from broker.trace.bodies import rebuilt
from broker.trace.format import BlobRef, Event
from broker.trace.reader import RunReader

_KIND: Final = "application/json"
_MAX_TOLD: Final = 256  # divergences that are kept in mind


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """
    A recorded answer.

    ``lost`` says why it cannot be given again; ``cut`` that it ended early then, and so does now.
    """

    seq: int
    status: int
    kind: str
    body: bytes
    stream: bool = False
    cut: bool = False
    lost: str = ""


@dataclass(frozen=True, slots=True)
class Played:
    """What a request is matched with, and its answer; None where there is none."""

    match: LadderMatch
    answer: KeptAnswer | None
    aside: bool = False


class Playback:
    """
    Plays one recorded run.

    Args:
        reader: the run.
        normal: makes what is asked comparable; for the places of the run that asks.
        recorded: the same, for the places of the run that was recorded.
        upto: only what was answered up to this event is played; None for all.

    Raises:
        TraceError: the run cannot be read.
    """

    def __init__(
        self, reader: RunReader, normal: Normal, recorded: Normal, upto: int | None = None
    ) -> None:
        self.rungs: Counter[int] = Counter()
        self.aside = 0
        self.told: list[Played] = []
        self._normal = normal
        self._lock = threading.Lock()
        self._answers: dict[int, KeptAnswer] = {}
        self._asides: dict[tuple[str, str, str], int] = {}
        self._batches: list[tuple[int, LookupBatch]] = []
        requests: list[KeptRequest] = []
        for event in reader.stream():
            if upto is not None and event.seq > upto:
                break
            if event.type == "model.request":
                self._take(reader, event, recorded, requests)
            elif event.type == "model.response":
                for seq in event.causes:
                    self._answers[seq] = kept_answer(reader, event)
        if upto is not None:
            requests = [kept for kept in requests if kept.seq in self._answers]
        self._ladder = Ladder(requests)
        self._forked = upto is not None
        self.recorded = len(requests)

    def _take(
        self, reader: RunReader, event: Event, normal: Normal, requests: list[KeptRequest]
    ) -> None:
        path = path_of(event.text("path"))
        body = rebuilt(reader, event.seq)
        shape = shape_of(body, normal)
        conversation = event.text("conversation")
        if conversation:
            requests.append(KeptRequest(event.seq, path, conversation, shape))
        else:
            method = event.text("method") or "POST"
            self._asides[method, path, shape.digest] = event.seq
            batch = batch_of(path, body, normal)
            if batch is not None:
                self._batches.append((event.seq, batch))

    @property
    def left(self) -> tuple[KeptRequest, ...]:
        """What was recorded and not asked for."""
        with self._lock:
            return self._ladder.left

    @property
    def over(self) -> bool:
        """Whether this is a fork, and all that was recorded below its point was given again."""
        return self._forked and not self.left

    def play(self, method: str, target: str, content: bytes) -> Played:
        """
        Return the recorded answer to a request.

        Args:
            method: of HTTP.
            target: the path, with or without a query.
            content: the body, as JSON; its encoding is undone.
        """
        path = path_of(target)
        body = hide_tree(_json(content), Hider())[0]
        shape = shape_of(body, self._normal)
        with self._lock:
            seq = self._asides.get((method, path, shape.digest))
            if seq is not None:
                self.aside += 1
                return Played(LadderMatch(1, None), self._answers.get(seq), aside=True)
            moved = self._moved(path, body)
            if moved is not None:
                self.aside += 1
                return Played(LadderMatch(1, None), moved, aside=True)
            match = self._ladder.match(path, shape)
            answer = None if match.kept is None else self._answers.get(match.kept.seq)
            if match.kept is not None and (answer is None or answer.lost):
                why = "it was never answered" if answer is None else answer.lost
                match = LadderMatch(4, match.kept, match.distance, f"event {match.kept.seq}: {why}")
                answer = None
            self.rungs[match.rung] += 1
            played = Played(match, answer)
            if match.rung > 1 and len(self.told) < _MAX_TOLD:
                self.told.append(played)
            return played

    def _moved(self, path: str, body: object) -> KeptAnswer | None:
        """Return the recorded answer to the same texts in another order."""
        asked = batch_of(path, body, self._normal) if self._batches else None
        if asked is None:
            return None
        for seq, batch in self._batches:
            answer = self._answers.get(seq)
            if answer is None or answer.lost or answer.status != 200:
                continue
            found = in_order(batch, asked, answer.body)
            if found is not None:
                return replace(answer, body=found)
        return None


def kept_answer(reader: RunReader, event: Event) -> KeptAnswer:
    """
    Return the answer that a ``model.response`` holds.

    Raises:
        TraceError: its content cannot be read.
    """
    status = event.attrs.get("status")
    kind = event.text("content_type") or _KIND
    lost = event.text("left_out")
    if not isinstance(status, int):
        why = event.text("message") or "no answer came"
        return KeptAnswer(event.seq, 0, kind, b"", cut=True, lost=lost or f"then {why}")
    payload = event.payload
    if isinstance(payload, BlobRef):
        body = reader.blob(payload)
    elif payload is None:
        body = b""
    else:
        body = (payload if isinstance(payload, str) else json.dumps(payload)).encode()
    cut = status < 400 and bool(event.text("error"))
    stream = event.attrs.get("stream") is True
    return KeptAnswer(event.seq, status, kind, body, stream, cut, lost)


def tally(rungs: Iterable[tuple[int, int]]) -> str:
    """
    Return how many requests stood on which rung, in words.

    >>> tally({1: 12, 2: 1}.items())
    'rung 1: 12, rung 2: 1'
    """
    counted = {rung: count for rung, count in rungs if count}
    return ", ".join(f"rung {rung}: {counted[rung]}" for rung in sorted(counted)) or "nothing asked"


def _json(content: bytes) -> object:
    if not content:
        return None
    try:
        found: object = json.loads(content)
    except (ValueError, RecursionError):
        return content.decode("utf-8", "replace")
    return found
