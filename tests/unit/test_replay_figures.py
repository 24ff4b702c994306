"""What a run came to in figures, and what its tokens cost."""

from __future__ import annotations

import pytest

from broker.errors import ConfigError
from broker.replay.figures import ModelPrice, RunFigures, figures_of, read_prices
from broker.trace.format import Event

TOLD = {"conversation": "main", "input_tokens": 10, "output_tokens": 3}
REFUSED = {"kind": "authority.decision", "allowed": False}


def _events(*rows: tuple[str, dict[str, object]]) -> list[Event]:
    return [Event(n, "", n * 500_000, 0, kind, "orca", attrs=a) for n, (kind, a) in enumerate(rows)]


EVENTS = _events(
    ("model.request", {"conversation": "main"}),
    ("model.response", TOLD),
    ("tool.call", {}),
    ("note", REFUSED),
    ("model.request", {}),
    ("model.response", {"input_tokens": 99}),
    ("divergence", {"rung": 2}),
    ("model.request", {"conversation": "main"}),
    ("model.response", TOLD),
    ("tool.call", {}),
    ("note", REFUSED),
    ("note", {**REFUSED, "allowed": True}),
)


def test_a_run_is_counted() -> None:
    """Requests of conversations, calls, refusals, tokens, the rungs below the first, the time."""
    assert figures_of(EVENTS) == RunFigures(2, 2, 2, 20, 6, 5.5, {2: 1})
    assert figures_of(EVENTS).same == 1
    assert figures_of([]) == RunFigures()


def test_what_was_given_again_is_not_counted() -> None:
    """Of a fork the tokens, calls and refusals are those after its point."""
    found = figures_of(EVENTS, given=1)
    assert (found.calls, found.refused, found.input_tokens, found.output_tokens) == (1, 1, 10, 3)


def test_a_cost_is_what_the_tokens_come_to() -> None:
    """Asked and answered tokens have prices of their own, per million."""
    assert ModelPrice(3, 15).of(RunFigures(input_tokens=100_000, output_tokens=20_000)) == 0.6


@pytest.mark.parametrize(
    "content",
    [
        b"[a]\ninput = 1",
        b"[a]\ninput = 1\noutput = -1",
        b"[a]\ninput = true\noutput = 1",
        b"[a]\ninput = 1\noutput = inf",
        b"[a]\ninput = 1\noutput = 1\nmore = 1",
        b"a = 1",
        b"[a",
        b"\xff",
    ],
)
def test_a_price_that_is_none_is_an_error(content: bytes) -> None:
    """Whatever is not two prices for each model is named, with its file."""
    with pytest.raises(ConfigError, match=r"p\.toml: "):
        read_prices(content, "p.toml")
