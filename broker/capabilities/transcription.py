"""
Transcription: what the person said, from a recording of it.

Decided here: that a command which the person configured does it. Nothing is configured by
default, and nothing is sent anywhere then. Not decided here: what becomes of the text, which a
person reads before it counts as typed.

A rule a maintainer keeps: where there is none the answer says so; nothing is made up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, Protocol

from broker.capabilities.process import Command, Processes
from broker.errors import CapabilityError, InputError

MEDIA_TYPE: Final = "{media_type}"  # in a word of the command: the kind of the recording
_TIMEOUT_S: Final = 300.0
_MAX_TEXT_BYTES: Final = 2**20


class Transcription(Protocol):
    """What turns speech into text."""

    @property
    def kind(self) -> str:
        """Which transcription this is: ``command``, ``unavailable`` or ``fake``."""

    def transcribe(self, audio: bytes, media_type: str) -> str:
        """Return what was said; ``CapabilityError`` when it cannot be told."""


class NoTranscription:
    """
    No transcription.

    >>> NoTranscription().transcribe(b"", "audio/wav")
    Traceback (most recent call last):
    broker.errors.CapabilityError: no transcription: no command is configured for it
    """

    __slots__ = ()
    kind: ClassVar = "unavailable"

    def transcribe(self, audio: bytes, media_type: str) -> str:
        """
        Refuse.

        Raises:
            CapabilityError: always (``capability.unavailable``).
        """
        raise _unavailable("no command is configured for it")


class CommandTranscription:
    """
    A command that reads a recording from its input and writes what was said to its output.

    Args:
        processes: what runs it.
        argv: its words; ``{media_type}`` in one of them becomes ``audio/wav`` or the like.
        folder: where it runs.

    Raises:
        InputError: there is no word.
    """

    __slots__ = ("_argv", "_folder", "_processes")
    kind: ClassVar = "command"

    def __init__(self, processes: Processes, argv: Sequence[str], folder: str = "/") -> None:
        if not argv:
            raise InputError("the command for transcription has no words")
        self._processes = processes
        self._argv = tuple(argv)
        self._folder = folder

    def transcribe(self, audio: bytes, media_type: str) -> str:
        """
        Return what was said.

        Raises:
            CapabilityError: the command cannot be run, says no, takes too long, or answers with
                something that is not text (``capability.unavailable``).
        """
        argv = tuple(word.replace(MEDIA_TYPE, media_type) for word in self._argv)
        environ = self._processes.environ
        passed_on = {name: environ[name] for name in ("PATH", "HOME", "LANG") if name in environ}
        command = Command(
            argv,
            self._folder,
            passed_on,
            stdin=audio,
            timeout_s=_TIMEOUT_S,
            output_bytes=_MAX_TEXT_BYTES,
        )
        try:
            ended = self._processes.run(command)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise _unavailable(f"`{argv[0]}`: {why}") from error
        if ended.code is None:
            raise _unavailable(f"`{argv[0]}` took too long")
        if ended.code or ended.cut:
            why = "wrote too much" if ended.cut else f"ended with {ended.code}"
            raise _unavailable(f"`{argv[0]}` {why}")
        try:
            return ended.stdout.decode().strip()
        except UnicodeDecodeError as error:
            raise _unavailable(f"`{argv[0]}` wrote something that is not text") from error


class ScriptedTranscription:
    """A transcription that says what a script says; ``heard`` holds what it was given."""

    kind: ClassVar = "fake"

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.heard: list[tuple[bytes, str]] = []
        self._texts = deque(texts)

    def transcribe(self, audio: bytes, media_type: str) -> str:
        """
        Return the next text.

        Raises:
            CapabilityError: the script is over (``capability.unavailable``).
        """
        self.heard.append((audio, media_type))
        if not self._texts:
            raise _unavailable("the script of transcriptions is over")
        return self._texts.popleft()


def _unavailable(why: str) -> CapabilityError:
    return CapabilityError(f"no transcription: {why}", code="capability.unavailable")
