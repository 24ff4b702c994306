"""
Requests to models, each kept as what is new in it since one before in the same conversation.

Decided here: what a request is a change to, and when it is kept whole. Not decided here: which
conversation it belongs to (who captures knows), and how a change is spelled
(``broker.trace.bodies``).

Rules a maintainer keeps: secrets are hidden in the whole body, where their names stand, and the
change is made of what is left; a part that was searched before is not searched again, or a long
conversation would cost the square of its length in time.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from broker.errors import InputError
from broker.limits import MAX_CONVERSATIONS
from broker.redaction.words import WORD_KEYS
from broker.trace.bodies import delta
from broker.trace.hiding import JSON, MAX_PATHS, inline, plain, spelled
from broker.trace.writer import RunWriter

_GAIN: Final = 0.75  # a change that is longer than this part of the whole is not worth undoing
_PAIR_KEYS: Final = frozenset(("name", "key", "header"))


class _Part(NamedTuple):
    """A part of a body without its secrets: its new key and value, the paths, and the counts."""

    key: str
    value: object
    paths: tuple[str, ...]
    counts: Counter[str]


class _Last(NamedTuple):
    """The last request of a conversation: its number, its body, and its parts by their digest."""

    seq: int
    body: dict[str, object]
    parts: dict[bytes, _Part]


class Requests:
    """
    Writes the requests of one run. Safe among threads.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from broker.capabilities.clock import FakeClock
    >>> from broker.trace.about import About, StartedBy
    >>> from broker.trace.bodies import rebuilt
    >>> from broker.trace.reader import RunReader
    >>> with tempfile.TemporaryDirectory() as place:
    ...     about = About(StartedBy("sh"), ["sh"], "/w")
    ...     run = RunWriter.create(Path(place), about, clock=FakeClock(), randomness=bytes)
    ...     requests = Requests(run)
    ...     for said in (["hello"], ["hello", "world"]):
    ...         seq = requests.write("main", {"model": "m", "messages": said})
    ...     run.seal(0)
    ...     rebuilt(RunReader.open(run.folder), seq)
    {'model': 'm', 'messages': ['hello', 'world']}
    """

    def __init__(self, run: RunWriter) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._last: OrderedDict[str, _Last] = OrderedDict()

    def write(
        self,
        conversation: str,
        body: object,
        *,
        actor: str = "agent",
        turn: int | None = None,
        causes: Sequence[int] = (),
        attrs: Mapping[str, object] | None = None,
        media_type: str = JSON,
    ) -> int:
        """
        Write a ``model.request``, and return its number; -1 once recording has stopped.

        Args:
            conversation: a stable name of the conversation; it becomes ``attrs.conversation``.
            body: the body as it was sent: the JSON value that it spells, or bytes where it spells
                none.
            actor: who asked.
            turn: the turn; None for the current one.
            causes: the results that it carries.
            attrs: what else there is to say; ``sha256`` and ``bytes`` of the body as it was sent.
            media_type: of a body of bytes.

        Raises:
            InputError: a value that JSON does not have.
            TraceError: it cannot be written; see ``RunWriter.event``.
        """
        said = {**(attrs or {}), "conversation": conversation}
        if not isinstance(body, dict):
            return self._run.event(
                "model.request",
                actor,
                turn=turn,
                causes=causes,
                attrs=said,
                payload=body,
                media_type=media_type,
            )
        with self._lock:
            last = self._last.get(conversation)
            hidden, counts = self._run.hiding.event(said)
            try:
                fresh, parts, paths = self._hidden(body, last, counts)
                whole = spelled(fresh)
                change = self._change(last, fresh, len(whole))
            except (ValueError, RecursionError) as error:
                if isinstance(error, InputError):
                    raise
                hidden.attrs["left_out"] = "the payload: nested deeper than is written"
                return self._run.write(
                    "model.request", actor, hidden, counts, turn=turn, causes=causes
                )
            value: object = fresh
            if change is not None:
                hidden.attrs["delta"] = True
                value, whole = change
            if inline(value, whole):
                hidden.inline = value
            else:
                hidden.blob = whole.encode()
            hidden.paths = (*hidden.paths, *paths)[:MAX_PATHS]
            seq = self._run.write("model.request", actor, hidden, counts, turn=turn, causes=causes)
            if seq >= 0:
                self._last[conversation] = _Last(seq, fresh, parts)
                self._last.move_to_end(conversation)
                if len(self._last) > MAX_CONVERSATIONS:
                    self._last.popitem(last=False)
            return seq

    def _change(
        self, last: _Last | None, fresh: dict[str, object], whole: int
    ) -> tuple[object, str] | None:
        """Return a request as a change to the last one, and its text, if that is shorter."""
        if last is None:
            return None
        change: object = {"base": last.seq, "change": delta(last.body, fresh)}
        text = spelled(change)
        return (change, text) if len(text) < _GAIN * whole else None

    def _hidden(
        self, body: dict[str, object], last: _Last | None, counts: Counter[str]
    ) -> tuple[dict[str, object], dict[bytes, _Part], list[str]]:
        """Return a body without secrets, searching only the parts that are new."""
        known = last.parts if last is not None else {}
        parts: dict[bytes, _Part] = {}
        fresh: dict[str, object] = {}
        paths: list[str] = []
        if "value" in body and _PAIR_KEYS & body.keys():
            # A pair is read together: its name says whether its value is a secret.
            kept, paths, found = self._run.hiding.object(body)
            counts.update(found)
            return kept, {}, [f"payload.{path}" for path in paths]
        for key, value in body.items():
            if not isinstance(value, list) or not value or key in WORD_KEYS:
                part = self._part(key, value, known, parts)
                fresh[part.key] = part.value
                counts.update(part.counts)
                paths += part.paths
                continue
            elements: list[object] = []
            for at, each in enumerate(value):
                part = self._part(key, [each], known, parts)
                assert isinstance(part.value, list)  # noqa: S101  a list stays one
                elements += part.value
                counts.update(part.counts)
                paths += [path.replace("[0]", f"[{at}]", 1) for path in part.paths]
            fresh[part.key] = elements
        return fresh, parts, [f"payload.{path}" for path in paths]

    def _part(
        self, key: str, value: object, known: Mapping[bytes, _Part], parts: dict[bytes, _Part]
    ) -> _Part:
        digest = hashlib.sha256(f"{key}\0{spelled(plain(value))}".encode()).digest()
        found = known.get(digest) or parts.get(digest)
        if found is None:
            kept, paths, counts = self._run.hiding.object({key: value})
            ((name, fresh),) = kept.items()
            found = _Part(name, fresh, tuple(paths), counts)
        parts[digest] = found
        return found
