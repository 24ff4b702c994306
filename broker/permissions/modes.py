"""
The four modes: how much a person lets happen without being asked, of what the ticket allows.

    read-only   reading runs, nothing else does
    ask         reading runs, everything else is asked about
    auto        everything runs; once a stranger's words were read, everything but reading is asked
    yolo        everything runs

Decided here: what each mode answers to each kind of effect, which mode is narrower, and how a run
gets its mode. Not decided here: what no mode lifts (``broker.permissions.hard``).

Rules a maintainer keeps: an effect that is not in the table is asked about, or refused where
nothing is asked; a subagent's mode is never wider than its caller's; ``yolo`` is never had by
configuration alone, since a file can be written by somebody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from broker.errors import ConfigError, InputError
from broker.permissions.effects import EGRESS, READ, UNSEEN, WRITE, Permission

Mode = Literal["read-only", "ask", "auto", "yolo"]

MODES: Final[tuple[Mode, ...]] = ("read-only", "ask", "auto", "yolo")  # from narrow to wide
DEFAULT: Final[Mode] = "ask"
YOLO_VARIABLE: Final = "BROKER_YOLO"

_OTHERS: Final[Mapping[Mode, Permission]] = MappingProxyType(
    {"read-only": "refuse", "ask": "ask", "auto": "allow", "yolo": "allow"}
)
_KNOWN: Final = frozenset({WRITE, EGRESS, UNSEEN})


def answer(mode: Mode, effect: str, *, tainted: bool = False) -> Permission:
    """
    Return what a mode says to one kind of effect.

    >>> answer("auto", "write"), answer("auto", "write", tainted=True)
    ('allow', 'ask')
    >>> answer("read-only", "write"), answer("yolo", "unheard of")
    ('refuse', 'ask')
    """
    if effect == READ:
        return "allow"
    said = _OTHERS[mode]
    if said == "allow" and (effect not in _KNOWN or (tainted and mode == "auto")):
        return "ask"
    return said


def read_mode(text: str) -> Mode:
    """
    Return the mode that a text names.

    Raises:
        InputError: there is no such mode.

    >>> read_mode("auto")
    'auto'
    """
    for mode in MODES:
        if mode == text:
            return mode
    raise InputError(f"there is no mode `{text}`: {', '.join(MODES)}")


def within(mode: Mode, limit: Mode) -> bool:
    """
    Return whether a mode lets through no more than another.

    >>> within("ask", "auto"), within("yolo", "auto")
    (True, False)
    """
    return MODES.index(mode) <= MODES.index(limit)


def settled(typed: Mode | None, configured: Mode | None, environ: Mapping[str, str]) -> Mode:
    """
    Return the mode of a run.

    Args:
        typed: what a person typed for this run; it wins.
        configured: what their configuration says.
        environ: where ``BROKER_YOLO=1`` confirms a configured ``yolo``.

    Raises:
        ConfigError: the configuration alone says ``yolo``.

    >>> settled(None, "auto", {}), settled("ask", "auto", {}), settled(None, None, {})
    ('auto', 'ask', 'ask')
    """
    if typed is not None:
        return typed
    if configured == "yolo" and environ.get(YOLO_VARIABLE) != "1":
        raise ConfigError(
            f"`yolo` is not had by configuration alone: type it, or set {YOLO_VARIABLE}=1",
            code="config.yolo",
        )
    return configured or DEFAULT
