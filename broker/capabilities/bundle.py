"""
One of each capability: all that a harness has of the world.

Decided here: which capabilities there are and which ones a run gets by default. Not decided here:
what they do.

Rules a maintainer keeps: the bundle is handed in and never looked up; credentials are empty
unless a person chose otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from broker.capabilities.browser import Browser, ScriptedBrowser, SystemBrowser
from broker.capabilities.clock import Clock, FakeClock, SystemClock
from broker.capabilities.credentials import Credentials, NoCredentials, SeededCredentials
from broker.capabilities.fs import FileSystem, SystemFiles
from broker.capabilities.memory import MemoryFiles
from broker.capabilities.process import Answer, Processes, ScriptedProcesses, SystemProcesses
from broker.capabilities.terminal import FakeTerminal, SystemTerminal, Terminal
from broker.capabilities.transcription import (
    NoTranscription,
    ScriptedTranscription,
    Transcription,
)
from broker.capabilities.web import WebPage


@dataclass(frozen=True, slots=True)
class Capabilities:
    """
    The seven capabilities of one run.

    >>> real_capabilities().kinds()["credentials"]
    'empty'
    """

    clock: Clock
    fs: FileSystem
    process: Processes
    credentials: Credentials
    browser: Browser
    transcription: Transcription
    terminal: Terminal

    def kinds(self) -> dict[str, str]:
        """Return the kind of each, by its name."""
        return {field.name: getattr(self, field.name).kind for field in fields(self)}


def real_capabilities(
    *, credentials: Credentials | None = None, transcription: Transcription | None = None
) -> Capabilities:
    """
    Return the machine's own.

    Args:
        credentials: what the person chose to share; nothing by default.
        transcription: what the person configured; nothing by default.
    """
    processes = SystemProcesses()
    return Capabilities(
        SystemClock(),
        SystemFiles(),
        processes,
        credentials or NoCredentials(),
        SystemBrowser(processes),
        transcription or NoTranscription(),
        SystemTerminal(),
    )


@dataclass(frozen=True, slots=True)
class FakeWorld:
    """
    The seven fakes by their own types, for a test to prepare and to look at.

    >>> world = FakeWorld.of(files={"/ws/a.txt": b"one"}, typed=["yes"])
    >>> set(world.capabilities().kinds().values())
    {'fake'}
    """

    clock: FakeClock
    fs: MemoryFiles
    process: ScriptedProcesses
    credentials: SeededCredentials
    browser: ScriptedBrowser
    transcription: ScriptedTranscription
    terminal: FakeTerminal

    @classmethod
    def of(
        cls,
        *,
        files: Mapping[str, bytes] | None = None,
        processes: Iterable[Answer] = (),
        credentials: Mapping[str, str] | None = None,
        pages: Iterable[WebPage] = (),
        transcripts: Iterable[str] = (),
        typed: Iterable[str] = (),
        argv: tuple[str, ...] = (),
        environ: Mapping[str, str] | None = None,
    ) -> FakeWorld:
        """Return a world of these files, processes, secrets, pages, recordings, typed lines."""
        return cls(
            FakeClock(),
            MemoryFiles(files),
            ScriptedProcesses(processes, argv=argv, environ=environ),
            SeededCredentials(credentials or {}),
            ScriptedBrowser(pages),
            ScriptedTranscription(transcripts),
            FakeTerminal(typed),
        )

    def capabilities(self) -> Capabilities:
        """Return the bundle of these fakes."""
        return Capabilities(
            self.clock,
            self.fs,
            self.process,
            self.credentials,
            self.browser,
            self.transcription,
            self.terminal,
        )
