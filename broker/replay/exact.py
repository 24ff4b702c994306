"""
Playing a run again: the agent as it was started, its model from the recording.

Decided here: in which order a replay is set up, what the agent gets that it had then, and what the
whole comes to. Not decided here: how requests are matched, answered and recorded.

The workspace is restored into a scratch folder, which stands where the workspace was as far as the
kernel lets it; the person's own is never written. What ran under a ticket runs under one again, by
the same texts and line, since what was refused then stands in what the model was told. A replay is
a run with a parent of its own.

A fork is played the same way up to its point, and asks the model from there on: then the network is
open, and tools act for real in the scratch folder.

Rules a maintainer keeps: the process is cut off before the agent is started, and what kept it from
that is said; in an exact replay nothing is sent to the model's maker, and no key is needed.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from broker.agents.adapter import Adapter, Launch
from broker.capture.alone import record
from broker.capture.begin import Recorded
from broker.capture.recording import Recording
from broker.config import load_config
from broker.errors import InputError, TraceError
from broker.home import Home
from broker.launch import run as launched
from broker.launchwords import Streams
from broker.replay.answering import Diverged, RecordedTrees, ResultsServer
from broker.replay.forking import Fork
from broker.replay.isolation import Isolation, cut_off
from broker.replay.live import LiveModels
from broker.replay.normal import Normal
from broker.replay.outcome import ReplayOutcome
from broker.replay.playback import Playback
from broker.replay.repository import repository
from broker.replay.seen import SeenRun
from broker.replay.serving import ReplayServer
from broker.replay.translation.other import OtherModel, other_model
from broker.replay.watching import NO_KEY, Replaying
from broker.service.client import REPLAY_VARIABLE
from broker.trace.about import Parent
from broker.trace.manifest import Manifest
from broker.trace.reader import RunReader

# The variables by which agents find a key; without one they ask for a login.
KEYS: Final = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY")
_HIDDEN: Final = "[hidden"
_WORD_BYTES: Final = 16
_HEAD: Final = re.compile(r"(?:[0-9a-f]{40})?")  # empty: no commit yet

Restore = Callable[[Path], str]


@dataclass(frozen=True, slots=True)
class Again:
    """
    What is played again.

    Args:
        reader: the recorded run.
        session: what its receipt tells, where it ran under a ticket.
        restore: puts the workspace as it was into an empty folder, and says what it put there; None
            where nothing was kept of it.
        fork: ask the model from there on; None for an exact replay.
        loose: ask the model what nothing was recorded for.
        into: the folder that stands in for the workspace, and is kept; an empty or a new one. None
            for one that goes when the replay is over.
        live_tools: run shells and MCP servers again, in place of giving their recorded results. A
            fork always does.
    """

    reader: RunReader
    session: SeenRun | None = None
    restore: Restore | None = None
    fork: Fork | None = None
    loose: bool = False
    into: Path | None = None
    live_tools: bool = False

    @property
    def offline(self) -> bool:
        """Whether no model is asked."""
        return self.fork is None and not self.loose

    @property
    def given(self) -> bool:
        """Whether tools get their recorded results."""
        return self.offline and not self.live_tools


def replay(
    again: Again,
    *,
    home: Home,
    environ: Mapping[str, str],
    stderr: TextIO,
    quiet: bool = False,
) -> ReplayOutcome:
    """
    Play a run again, offline, in a scratch folder. From the main thread; see ``isolation``.

    Args:
        again: what is played.
        home: the broker's folders.
        environ: the environment that the agent gets, with what stands for its keys.
        stderr: where the broker's own lines go.
        quiet: say only warnings and what went wrong.

    Raises:
        InputError: the run cannot be played again; nothing was started.
        CapabilityError: the other provider's key is missing; nothing was started.
        LaunchError: its command cannot be started.
        TraceError: it cannot be read, or the replay cannot be recorded.
    """
    manifest = again.reader.manifest
    command = _command(manifest.argv)
    other = _other(again.fork, home, environ)
    scratch = _scratch(again.into)
    place = Path(tempfile.mkdtemp(prefix="broker-results-"))
    try:
        if again.restore is not None:
            again.restore(scratch)
        lacks = _repository(manifest, scratch)
        if lacks and not quiet:
            Streams(stderr).say(lacks)
        isolation = cut_off(scratch, manifest.cwd, network=again.offline)
        here = manifest.cwd if isolation.in_place else os.path.realpath(scratch)
        # Another provider's model is asked by us, under a key that the agent does not get.
        keyless = again.offline or other is not None
        given = _environ(environ, here, offline=keyless)
        if again.given:
            given[REPLAY_VARIABLE] = os.fspath(place / "ask")
        playing = _Playing(again, given, (here, scratch), other)
        words = [word.replace(manifest.cwd, here) for word in command]
        about = _About(home, given, Path(here), stderr, quiet)
        code = _start(words, again.session, playing, about)
        return playing.outcome(isolation, code)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if again.into is None:
            shutil.rmtree(scratch, ignore_errors=True)


def _other(fork: Fork | None, home: Home, environ: Mapping[str, str]) -> OtherModel | None:
    """Return the model of another provider that a fork names, if it names one."""
    if fork is None or not fork.model:
        return None
    return other_model(fork.model, load_config(home.config).models, environ)


def _repository(manifest: Manifest, scratch: Path) -> str:
    """Give the scratch folder a repository where the workspace had one; return what is lacking."""
    told = manifest.document.get("git")
    if not isinstance(told, Mapping):
        return ""
    head, branch = (told.get(key, "") for key in ("head", "branch"))
    if not isinstance(head, str) or not isinstance(branch, str) or not _HEAD.fullmatch(head):
        return ""
    return repository(Path(manifest.cwd), head, branch, scratch)


def _scratch(into: Path | None) -> Path:
    """Return the folder that stands in for the workspace, which is empty."""
    if into is None:
        return Path(tempfile.mkdtemp(prefix="broker-replay-"))
    try:
        into.mkdir(parents=True, exist_ok=True)
        if any(into.iterdir()):
            raise InputError(f"`{into}` is not empty: name a new folder")
    except OSError as error:
        raise InputError(f"`{into}` cannot be used: {error.strerror}") from None
    return into.resolve()


class _Playing:
    """The playback of one replay, and the recording that is made of it."""

    def __init__(
        self,
        again: Again,
        environ: Mapping[str, str],
        places: tuple[str, Path],
        other: OtherModel | None = None,
    ) -> None:
        self.manifest = again.reader.manifest
        self._again = again
        self._live = (
            LiveModels(environ, again.fork.model if again.fork else "", other)
            if again.fork is not None or again.loose
            else None
        )
        self._sid = again.session.name if again.session is not None else ""
        self._home = environ.get("HOME", "")
        self._here, self._scratch = places
        self._ask = environ.get(REPLAY_VARIABLE, "")
        self._playback: Playback | None = None
        self._replaying: Replaying | None = None

    def _normal(self, cwd: str, sid: str) -> Normal:
        return Normal({cwd: "<cwd>", self._home: "<home>", sid: "<session>"})

    def begins(
        self,
        wanted: bool,
        runs: Path,
        launch: Launch,
        adapter: Adapter,
        say: Callable[[str], None],
        *,
        sid: str = "",
        workspace: Path | None = None,
        closed: Sequence[str] = (),
    ) -> Recorded:
        """Begin the recording of the replay."""
        there = self._normal(self.manifest.cwd, self._sid)
        fork = self._again.fork
        here = self._normal(self._here, sid)
        upto = None if fork is None else fork.point
        playback = Playback(self._again.reader, here, there, upto)
        if not playback.recorded:
            raise InputError(
                f"`{self.manifest.run_id}` holds no request to a model: there is nothing to play"
            )
        parent = Parent(self.manifest.run_id, upto, fork.model if fork is not None else "")
        recording = Recording.begin(
            runs,
            launch,
            adapter,
            say,
            sid=sid,
            workspace=workspace,
            closed=closed,
            parent=parent,
        )
        if recording is None:
            raise TraceError("the replay cannot be recorded, and nothing was started")
        word = secrets.token_hex(_WORD_BYTES)
        self._playback = playback
        live, loose = self._live, self._again.loose
        pass_on = None if live is None else live.pass_on
        self._replaying = Replaying(
            recording,
            lambda told: ReplayServer(playback, word, told, pass_on, loose=loose),
            live,
            loose=loose,
            results=partial(self._results, here, there) if self._ask else None,
        )
        return self._replaying

    def _results(self, here: Normal, there: Normal, diverged: Diverged) -> ResultsServer:
        """Make what gives shells and MCP servers their recorded results."""
        reader = self._again.reader
        trees = RecordedTrees(reader, self._scratch if self._again.restore is not None else None)
        made = ResultsServer(reader, Path(self._ask), (here, there), trees=trees, diverged=diverged)
        made.bind()
        return made

    def outcome(self, isolation: Isolation, code: int) -> ReplayOutcome:
        """Return what it came to."""
        replaying, played = self._replaying, self._playback
        assert replaying is not None  # noqa: S101  it has ended, so it began
        assert played is not None  # noqa: S101  as above
        return ReplayOutcome(
            replaying.recording.run_id,
            isolation,
            code,
            self.manifest.exit_code,
            played.recorded,
            dict(played.rungs),
            played.left,
            tuple(played.told),
            replaying.halted,
            replaying.live,
            self._again.fork,
            None if replaying.results is None else replaying.results.tally,
            "" if replaying.results is None else replaying.results.trees.lost,
        )


@dataclass(frozen=True, slots=True)
class _About:
    """What an agent is started with."""

    home: Home
    environ: Mapping[str, str]
    here: Path
    stderr: TextIO
    quiet: bool


def _start(
    command: Sequence[str], session: SeenRun | None, playing: _Playing, about: _About
) -> int:
    """Start the agent as it was started then, and return how it ended."""
    os.chdir(about.here)
    if session is None:
        return record(
            command,
            home=about.home,
            environ=about.environ,
            stderr=about.stderr,
            quiet=about.quiet,
            cwd=about.here,
            begins=playing.begins,
        )
    # An instant that was typed then is over by now; what was counted from the start is not.
    texts = [text for text in session.scope if not _is_past(text)]
    return launched(
        command,
        texts=texts,
        intent=session.line or None,
        workspace=about.here,
        home=about.home,
        environ=about.environ,
        stderr=about.stderr,
        quiet=about.quiet,
        canary=False,
        record=True,
        begins=playing.begins,
    )


def _command(argv: Sequence[str]) -> list[str]:
    if not argv:
        raise InputError("the recording does not say what was started")
    if any(_HIDDEN in word for word in argv):
        raise InputError("a secret stood on its command line, and was not recorded")
    return list(argv)


def _environ(environ: Mapping[str, str], here: str, *, offline: bool = True) -> dict[str, str]:
    """Return what the agent gets: its folder by its new name and, offline, something for a key.

    A real key is of no use there, and what the agent starts could read it.
    """
    keys = dict.fromkeys(KEYS, NO_KEY) if offline else {}
    pwd = {"PWD": here} if environ.get("PWD") else {}
    return {**environ, **keys, **pwd}


def _is_past(text: str) -> bool:
    key, _, value = text.partition("=")
    return key.strip() == "until" and "T" in value.upper()
