"""
One opinion, and what it said.

Decided here: that an opinion allows, or does not allow and says why, or could not be had. Not
decided here: what that comes to for the call (``broker.opinions.counsel``).

Rules a maintainer keeps: nothing but a whole, well-formed yes to every question is a yes; why an
opinion could not be had is for the person (``fault``), and what it says is for the model too
(``reason``), so that addresses and statuses are not told to a model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from broker.opinions.question import Consultation

Said = Literal["allow", "refuse", "none"]


@dataclass(frozen=True, slots=True)
class Opined:
    """
    What an opinion said of a call.

    ``asked`` and ``answered`` are hex SHA-256 of what was sent and of what came back; empty where
    nothing was or did. ``reason`` says why it refuses; ``fault`` why there is no answer.
    """

    said: Said
    asked: str = ""
    answered: str = ""
    reason: str = ""
    fault: str = ""


class Opinion(Protocol):
    """Somebody who is asked about calls."""

    @property
    def name(self) -> str:
        """How the configuration calls it."""

    def ask(self, inquiry: Consultation) -> Opined:
        """Answer within the opinion's own deadline; never raises a ``BrokerError``."""
        ...


class NoAnswerError(Exception):
    """An opinion could not be had; the message says why, for the person."""


def digest(parts: Iterable[bytes]) -> str:
    """
    Return the hex SHA-256 of texts, each with a newline behind it.

    >>> digest([b""]) == hashlib.sha256(b"\\n").hexdigest()
    True
    """
    found = hashlib.sha256()
    for part in parts:
        found.update(part + b"\n")
    return found.hexdigest()
