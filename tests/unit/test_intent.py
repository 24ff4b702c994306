"""An intent opens from a typed line, and from nothing else."""

from __future__ import annotations

import pytest

from broker.errors import InputError
from broker.intent import Intents, TypedLine, digest
from broker.limits import MAX_INTENT_CHARS


def test_a_typed_line_opens_the_intent() -> None:
    """A line typed at depth 0 opens it, trimmed, with its digest and instant."""
    intents = Intents()
    opened = intents.open(TypedLine("  fix it\n", "terminal"), 7)
    assert (opened.line, opened.digest, opened.opened_at) == ("fix it", digest("fix it"), 7)
    assert intents.current == opened


@pytest.mark.parametrize("source", ["fix it", b"fix it", None, {"text": "fix it"}])
def test_text_alone_opens_nothing(source: object) -> None:
    """Text that does not say it was typed opens no intent, whatever it says."""
    with pytest.raises(InputError) as caught:
        Intents().open(source, 0)  # type: ignore[arg-type]  # the point of the test
    assert caught.value.code == "intent.source"


def test_a_subagents_prompt_opens_nothing() -> None:
    """Below depth 0 the line is a model's, and opens no intent."""
    with pytest.raises(InputError) as caught:
        Intents().open(TypedLine("fix it", "argument", depth=1), 0)
    assert caught.value.code == "intent.depth"


def test_an_intent_opens_once() -> None:
    """A second line does not replace the first."""
    intents = Intents()
    first = intents.open(TypedLine("one", "argument"), 0)
    with pytest.raises(InputError) as caught:
        intents.open(TypedLine("two", "argument"), 0)
    assert caught.value.code == "intent.open"
    assert intents.current == first


@pytest.mark.parametrize("text", ["", " \n\t", "x\ud800", "x" * (MAX_INTENT_CHARS + 1)])
def test_a_line_that_says_nothing_readable_is_an_error(text: str) -> None:
    """Empty, endless and malformed lines open nothing, and leave nothing open."""
    intents = Intents()
    with pytest.raises(InputError):
        intents.open(TypedLine(text, "argument"), 0)
    assert intents.current is None


def test_the_longest_line_is_taken() -> None:
    """A line of exactly the limit is a line."""
    assert len(Intents().open(TypedLine("x" * MAX_INTENT_CHARS, "argument"), 0).line) == 65_536
