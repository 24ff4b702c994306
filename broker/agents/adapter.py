"""
What a launch needs to know of an agent.

Decided here: the shape that each agent's module fills, and which command starts which agent.
Not decided here: anything about a single agent.

Rules a maintainer keeps: an adapter refuses to start (``LaunchError``) what it cannot hold to
the ticket; it never edits a file of the user's; it adds to the command, and what the person
typed stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from broker.boundary import contained
from broker.errors import LaunchError
from broker.limits import MAX_CANARY_S
from broker.loopback.script import Text, Use
from broker.plugins import AGENTS, added, loaded
from broker.service.server import Hook

if TYPE_CHECKING:
    from broker.agents.models import Front, Redirected


@dataclass(frozen=True, slots=True)
class Launch:
    """What is to be started, and the session that it will be held to."""

    command: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: Path
    folder: Path
    socket: Path


@dataclass(frozen=True, slots=True)
class Prepared:
    """
    The command as it is really started, with what is added to its environment, and where it is
    started if that is not where it is to work.

    ``keys`` are the variables that the agent's configuration names for its provider's key,
    ``tokens`` those that have a token of the run in place of one.
    ``fleeting`` are files that repeat what the person configured, keys of MCP servers perhaps, and
    that go when the run is over. ``beside`` are the MCP servers with an address that the agent
    reaches without the gateway.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    keys: tuple[str, ...] = ()
    fleeting: tuple[Path, ...] = ()
    tokens: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bait:
    """
    What a canary is made with: a file that is closed under every ticket, and a model of ours.

    ``file`` lies in a folder of its own, in the session's; an adapter may put there what its
    agent needs for the canary alone. ``url`` is the model's address, without a path; ``errand``
    is the prompt for a subagent.
    """

    file: Path
    url: str
    prompt: str
    errand: str


@dataclass(frozen=True, slots=True)
class Canary:
    """
    How the agent of a run is started once more, headless, to make one call that must be refused.

    ``environ`` is laid over that of the run; None takes a variable out. ``call`` is the tool and
    its arguments, which must reach for the bait. ``told`` is whether this agent's model is told of
    a refusal, ``fenced`` whether what it sends elsewhere is kept on this machine. ``helper`` is the
    call that starts a subagent on the errand, where there are any; ``meanwhile`` is what the agent
    does until then, where it does not wait, and ``report`` how a subagent ends, where talking is
    not enough.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str | None]
    call: tuple[str, Mapping[str, object] | Text]
    within_s: float = MAX_CANARY_S
    told: bool = True
    fenced: bool = True
    helper: tuple[str, Mapping[str, object]] | None = None
    meanwhile: Use | None = None
    report: Use | None = None


class Adapter(Protocol):
    """One kind of agent, for one run."""

    name: str
    tested: str  # the version that its tests were last run with; empty where there is none
    point: str  # what stands before its calls, in a few words
    trial: tuple[str, ...]  # what is typed behind its name to try it in a folder of no repute

    def check(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """
        Look before anything is made.

        Raises:
            LaunchError: this agent, started like this, cannot be held to a ticket.
        """
        ...

    def prompt(self, command: Sequence[str]) -> str | None:
        """Return the line that the person typed for the agent on its command line, if any."""
        ...

    def own(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the files that would free the agent, and that no tool may touch."""
        ...

    def unseen(self) -> tuple[str, ...]:
        """Return what no hook of this agent shows, a sentence each; a person is told."""
        ...

    def prepare(self, launch: Launch) -> Prepared:
        """Write what the run needs into the session's folder, and return the command."""
        ...

    def through(self, launch: Launch, prepared: Prepared, front: Front) -> Redirected:
        """
        Return how the agent is started so that it asks its model through a server of ours.

        Args:
            launch: what is to be started.
            prepared: how it is started else: as ``prepare`` says, or as it was typed.
            front: the address of ours that stands for a model's, by a name for that.

        Raises:
            LaunchError: what it needs cannot be written.
        """
        ...

    def canary(self, launch: Launch, prepared: Prepared, bait: Bait) -> Canary | None:
        """
        Return how the canary is started, with the program, the hooks and the settings of the run.

        None says that no model is asked in this run. The canary asks no provider, and leaves the
        person's history alone as far as the agent lets it.

        Raises:
            LaunchError: what it needs cannot be written.
        """
        ...

    def rehearsed(self) -> None:
        """Forget what the canary did: from now on it is the run."""
        ...

    def hooks(self) -> Mapping[str, Hook]:
        """Return the hooks that the session's socket answers."""
        ...

    def escaped(self) -> str | None:
        """Return why the agent is not held any more, or None; asked all through the run."""
        ...


# By the program's name; a room is loaded when its agent is started.
PROGRAMS: Final[Mapping[str, str]] = {
    "claude": "broker.agents.claude.launch:ClaudeLaunch",
    "claude.exe": "broker.agents.claude.launch:ClaudeLaunch",
    "codex": "broker.agents.codex.launch:CodexLaunch",
    "codex.exe": "broker.agents.codex.launch:CodexLaunch",
    "opencode": "broker.agents.opencode.launch:OpencodeLaunch",
    "opencode.exe": "broker.agents.opencode.launch:OpencodeLaunch",
    "pi": "broker.agents.pi.launch:PiLaunch",
    "gemini": "broker.agents.gemini.launch:GeminiLaunch",
    "copilot": "broker.agents.copilot.launch:CopilotLaunch",
    "cline": "broker.agents.cline.launch:ClineLaunch",
    "qwen": "broker.agents.qwen.launch:QwenLaunch",
}


class Plain:
    """
    Any other command. It is held to what it asks (``broker check``, ``broker.attach``).
    """

    name = "command"
    tested = point = ""
    trial: tuple[str, ...] = ()

    def check(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """Nothing is known that could be wrong."""

    def prompt(self, command: Sequence[str]) -> str | None:
        """Return None: a command's arguments are not known to be a typed line."""
        return None

    def own(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    def unseen(self) -> tuple[str, ...]:
        """Return nothing: that it is held to what it asks is said already."""
        return ()

    def prepare(self, launch: Launch) -> Prepared:
        """Return the command as it is."""
        return Prepared(launch.command)

    def through(self, launch: Launch, prepared: Prepared, front: Front) -> Redirected:
        """Point it at us by the variables that the makers of models read."""
        from broker.agents.models import anywhere  # noqa: PLC0415  it knows of Prepared

        return anywhere(prepared, front, launch.environ)

    def canary(self, launch: Launch, prepared: Prepared, bait: Bait) -> Canary | None:
        """Return None: there is no hook to try."""
        return None

    def rehearsed(self) -> None:
        """Nothing is known of it."""

    def hooks(self) -> Mapping[str, Hook]:
        """Return nothing."""
        return {}

    def escaped(self) -> str | None:
        """Return None: there is no hook to lose."""
        return None


def adapter_for(command: Sequence[str]) -> Adapter:
    """
    Return the adapter of the agent that a command starts.

    What is built in goes first; else it is what an installed package adds for the program.

    >>> adapter_for(["/usr/bin/claude", "-p", "hello"]).name, adapter_for(["make"]).name
    ('claude-code', 'command')

    Raises:
        LaunchError: packages add something for the program that is no adapter, or more than one.
    """
    program = Path(command[0]).name if command else ""
    place = PROGRAMS.get(program)
    if place is None:
        return _added(program)
    module, name = place.split(":")
    made: Adapter = getattr(import_module(module), name)()
    return made


def _added(program: str) -> Adapter:
    """Return what an installed package adds for a program; by its name it is known everywhere."""
    entry = added(AGENTS, program) if program else None
    if entry is None:
        return Plain()
    kind = loaded(entry)
    made: object = contained(kind, partial(_no_adapter, program)) if callable(kind) else None
    lacks = [member for member in _MEMBERS if not hasattr(made, member)]
    if lacks:
        raise LaunchError(f"what a package adds for `{program}` is no adapter: no `{lacks[0]}`")
    adapter = cast("Adapter", made)
    # The name chooses the catalog: under another agent's, its tools would be taken for that one's.
    if adapter.name != program:
        raise LaunchError(f"what a package adds for `{program}` is called `{adapter.name}`")
    return adapter


def _no_adapter(program: str, error: Exception) -> object:
    raise LaunchError(
        f"what a package adds for `{program}` cannot be made: {type(error).__name__}: {error}"
    ) from error


_MEMBERS: Final = tuple(
    sorted(name for name in {*vars(Adapter), *Adapter.__annotations__} if name[0] != "_")
)
