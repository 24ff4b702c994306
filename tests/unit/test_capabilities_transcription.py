"""Transcription: a command that the person configured, or an honest no."""

from __future__ import annotations

import os

import pytest

from broker.capabilities.process import Finished, ScriptedProcesses, SystemProcesses
from broker.capabilities.transcription import (
    CommandTranscription,
    NoTranscription,
    ScriptedTranscription,
    Transcription,
)
from broker.errors import CapabilityError, InputError


def refused(transcription: Transcription) -> str:
    """Return why nothing was transcribed."""
    with pytest.raises(CapabilityError) as caught:
        transcription.transcribe(b"sound", "audio/wav")
    assert caught.value.code == "capability.unavailable"
    return caught.value.message


def test_without_a_command_there_is_none() -> None:
    """Nothing is configured by default, and nothing is made up."""
    assert NoTranscription().kind == "unavailable"
    assert "no command is configured" in refused(NoTranscription())


def test_a_real_command_reads_the_recording() -> None:
    """The recording is the command's input, its kind a word of it, and its output the text."""
    words = ["/bin/sh", "-c", 'printf "%s: " "$0"; cat', "{media_type}"]
    spoken = CommandTranscription(SystemProcesses(), words).transcribe(b"hello\n", "audio/wav")
    assert spoken == "audio/wav: hello"


def test_a_command_gets_little_of_the_environment() -> None:
    """A key of the caller does not reach the command."""
    processes = ScriptedProcesses([Finished(0, b"hi")], environ={"PATH": "/bin", "API_KEY": "k"})
    assert CommandTranscription(processes, ["hear"]).transcribe(b"sound", "audio/wav") == "hi"
    assert processes.ran[0].environ == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Finished(1), "ended with 1"),
        (Finished(None), "took too long"),
        (Finished(0, b"\xff"), "not text"),
        (Finished(0, b"x", cut=True), "too much"),
        (FileNotFoundError(2, os.strerror(2)), "no such file"),
    ],
)
def test_a_command_that_fails_is_no_text(answer: Finished | OSError, why: str) -> None:
    """What is not certainly the text is none."""
    assert why in refused(CommandTranscription(ScriptedProcesses([answer]), ["hear"]))


def test_a_command_needs_a_word() -> None:
    """A configuration without a word is bad input."""
    with pytest.raises(InputError, match="no words"):
        CommandTranscription(ScriptedProcesses(), [])


def test_the_fake_one_says_what_its_script_says() -> None:
    """Texts come in order, and what was heard is kept."""
    spoken = ScriptedTranscription(["one"])
    assert spoken.transcribe(b"a", "audio/wav") == "one"
    assert "over" in refused(spoken)
    assert spoken.heard == [(b"a", "audio/wav"), (b"sound", "audio/wav")]
