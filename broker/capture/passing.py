"""
One request and what came of it, while they pass through the proxy.

Decided here: what is remembered of the two heads, and that nothing else of them is. Not decided
here: how they pass (``exchange``), and what is written of them (``scribe``).

Rule a maintainer keeps: a field is remembered only where it stands in ``MARKS`` by name, so that
no key is, whatever it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from broker.capture.http1 import HttpHead
from broker.capture.tape import Tape
from broker.records.model import Failure

# What agents say of whose request it is, and how its body is to be read.
MARKS: Final = frozenset(
    (
        *(b"content-type", b"content-encoding"),
        *(b"x-claude-code-agent-id", b"x-claude-code-session-id"),
        *(b"x-codex-parent-thread-id", b"x-openai-subagent", b"thread-id", b"session-id"),
        *(b"x-interaction-type", b"x-session-id", b"x-parent-session-id"),
    )
)
_MAX_MARK_CHARS: Final = 256


@dataclass(slots=True)
class Passage:
    """
    One request and its answer. The times are in nanoseconds of a monotonic clock.

    ``first_ns`` is when the first byte of the answer's body was handed on. ``failure`` is None
    when the answer came whole, whatever its status.
    """

    upstream: str
    method: str
    path: str
    marks: Mapping[str, str]
    request: Tape
    answer: Tape
    began_ns: int
    status: int | None = None
    told: Mapping[str, str] = field(default_factory=dict)
    first_ns: int | None = None
    ended_ns: int = 0
    failure: Failure | None = None


class Watcher(Protocol):
    """Is told of what passes, in the thread that carries it: it must return at once."""

    def asked(self, passing: Passage) -> None:
        """The request is through, or will come no further."""
        ...

    def answered(self, passing: Passage) -> None:
        """The answer is through, or will come no further."""
        ...

    def unknown(self, method: str, path: str) -> None:
        """Something was asked for that is not passed on."""
        ...


Clock = Callable[[], int]


def marks_of(head: HttpHead) -> dict[str, str]:
    """
    Return what is remembered of the fields of a head.

    >>> marks_of(HttpHead((b"", b"", b""), ((b"X-Session-Id", b"s"), (b"X-Api-Key", b"k"))))
    {'x-session-id': 's'}
    """
    found = ((name.lower(), value) for name, value in head.fields)
    return {
        name.decode(): value.decode("latin-1")[:_MAX_MARK_CHARS]
        for name, value in found
        if name in MARKS
    }
