"""Errors: who must act, the stable code, and the pointed form of a scope error."""

from __future__ import annotations

import pytest

from broker import errors
from broker.errors import AttenuationError, Break, BrokerError, InputError, PatternError, ScopeError

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, BrokerError)
]

# A code is what programs and other languages compare: changing one is a breaking change.
CODES = {
    "BrokerError": "broker",
    "CapabilityError": "capability",
    "InputError": "input",
    "PatternError": "pattern",
    "ScopeError": "scope",
    "PolicyError": "policy",
    "CatalogError": "catalog",
    "ConfigError": "config",
    "TicketFormatError": "ticket.format",
    "RecordError": "receipt.record",
    "LimitError": "limit",
    "VerificationError": "verification",
    "TicketVerificationError": "ticket.verification",
    "TraceError": "trace",
    "Break": "receipt.break",
    "UnverifiableError": "unverifiable",
    "AttenuationError": "attenuation",
    "StoreError": "store",
    "FatalStoreError": "store.fatal",
    "LaunchError": "launch",
    "ModelError": "model",
    "Refused": "refused",
}


def test_the_codes_are_these() -> None:
    """Every error class has its recorded code."""
    assert {c.__name__: c.code for c in CLASSES} == CODES


def test_malformed_input_is_a_value_error() -> None:
    """A caller that knows nothing of this package catches malformed input as a `ValueError`."""
    assert issubclass(InputError, ValueError)
    assert not issubclass(errors.VerificationError, ValueError)


def test_a_code_given_to_one_error_stays_with_it() -> None:
    """A narrower code belongs to the one error and leaves its class alone."""
    error = BrokerError("no room", code="store.full", free_bytes=0)
    assert (error.code, error.detail, str(error)) == ("store.full", {"free_bytes": 0}, "no room")
    assert BrokerError.code == "broker"


def test_what_a_program_may_read_is_an_attribute() -> None:
    """Places and kinds are attributes, so that nobody has to parse a message."""
    pattern = PatternError("no closing `]`", 4, "write `[[]`")
    assert (pattern.offset, pattern.hint) == (4, "write `[[]`")
    broken = Break("mac", "line 3 was not signed", line=3, offset=900)
    assert (broken.reason, broken.line, broken.offset) == ("mac", 3, 900)
    assert AttenuationError("`calls` would grow", kind="calls").kind == "calls"


def test_the_caret_stands_under_the_place() -> None:
    """A scope error shows the text, a caret under the offset, and where the text came from."""
    error = ScopeError("no such tool", text="tools=a,B", offset=8, hint="b", where="x.scope:3")
    assert error.pointed().splitlines() == [
        "x.scope:3: no such tool",
        "  tools=a,B",
        "          ^",
        "  did you mean `b`?",
    ]


@pytest.mark.parametrize("offset", [0, 59, 60, 61, 500, 999])
def test_a_long_text_is_shown_around_the_place(offset: int) -> None:
    """Of a long text a window is shown, and the caret still stands under the right letter."""
    text = "".join(chr(ord("a") + at % 26) for at in range(1_000))
    _, shown, caret = ScopeError("bad", text=text, offset=offset).pointed().splitlines()
    assert len(shown) <= 122
    assert shown[caret.index("^")] == text[offset]


def test_nothing_unprintable_reaches_the_terminal() -> None:
    """Escape codes and direction marks of a hostile text are shown as a replacement mark."""
    shown = ScopeError("bad", text="a\x1b[2J\u202eb\n").pointed()
    assert "a\ufffd[2J\ufffdb\ufffd" in shown
    assert len(shown.splitlines()) == 3


def test_a_hint_that_is_a_sentence_stands_as_it_is() -> None:
    """A hint of several words is shown as it is, a single word as a question."""
    assert ScopeError("bad", hint="give the host alone").pointed() == "bad\n  give the host alone"
