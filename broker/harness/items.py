"""
What can be registered with a harness: tools, hooks, commands, shortcuts, flags and providers.

Decided here: what each of them is. Not decided here: when it can be seen (``registry``), and how a
call goes through tools and hooks (``pipeline``).

Rules a maintainer keeps: an item is frozen and holds no state of a run; a hook is given a copy of
a call, so whatever it keeps in its hands is not what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from broker.capabilities.browser import Browser
from broker.capabilities.process import Processes
from broker.harness.files import Files

Delegate = Callable[[str, Sequence[str], str | None], str]
When = Literal["arguments", "permission", "result"]


@dataclass(frozen=True, slots=True)
class Work:
    """
    What one call may use.

    ``places`` are its path arguments, located before the call was decided. ``hop`` decides one
    more address and raises ``Refused``; ``delegate`` runs a subagent on a prompt, under a narrower
    ticket and in a mode, and returns what it said; ``recall`` returns a part of a long result.
    """

    files: Files
    places: Mapping[str, str]
    processes: Processes
    browser: Browser
    hop: Callable[[str], None]
    delegate: Delegate
    recall: Callable[[str, int], str]


@dataclass(frozen=True, slots=True)
class Tool:
    """
    One tool.

    ``schema`` is a JSON Schema of its arguments; ``paths`` names those that are paths, which are
    located before the call is decided. ``parallel`` says that it may run beside its siblings;
    ``server`` is the name of the MCP server whose tool it is.
    What it raises as a ``BrokerError`` is told to the model in its own words.
    """

    name: str
    about: str
    schema: Mapping[str, object]
    run: Callable[[Work, Mapping[str, object]], str]
    paths: tuple[str, ...] = ()
    parallel: bool = False
    server: str = ""


@dataclass(frozen=True, slots=True)
class Veto:
    """What a hook answers to stop a call; the model reads the reason."""

    reason: str


@dataclass(slots=True)
class HookedCall:
    """
    A call in the hands of a hook.

    ``arguments`` are the hook's to change before they are frozen. Later ones are copies of what
    runs, and changing them has no effect but to be recorded. ``text`` is the result, which a hook
    of results may change, and ``ok`` whether the tool succeeded.
    """

    tool: str
    call: str
    actor: str
    arguments: dict[str, object]
    text: str = ""
    ok: bool = True


@dataclass(frozen=True, slots=True)
class CallHook:
    """
    A function that is asked about every call.

    ``when`` says at which stage: ``arguments`` may change them, ``permission`` may only veto what
    is frozen, ``result`` may change what the model reads. It answers None or a ``Veto``. One that
    raises, or takes longer than ``timeout_s``, stops the call.
    """

    name: str
    when: When
    run: Callable[[HookedCall], Veto | None]
    timeout_s: float = 5.0


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A command that a person types as ``/name rest``; what it returns is shown."""

    name: str
    about: str
    run: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Shortcut:
    """Keys that stand for a command, such as ``ctrl+l`` for ``clear``."""

    keys: str
    command: str


@dataclass(frozen=True, slots=True)
class Flag:
    """A setting that a person can give on the command line; its default says which kind it is."""

    name: str
    about: str
    default: bool | int | str


@dataclass(frozen=True, slots=True)
class Provider:
    """Where models are had; ``model`` returns one by its name."""

    name: str
    model: Callable[[str], object]
    settings: Mapping[str, str] = field(default_factory=dict)


Item = Tool | CallHook | SlashCommand | Shortcut | Flag | Provider
