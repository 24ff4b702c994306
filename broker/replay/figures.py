"""
What a run came to in figures, and what its tokens cost.

Decided here: what is counted of a recording, and that a price is only known where a person wrote it
down: there is no list of prices in here, since such a list is wrong the day after. Not decided
here: which runs are compared (``broker.cli.compare``).
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from broker.errors import ConfigError
from broker.trace.format import Event

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class RunFigures:
    """
    What a recording counts.

    ``requests`` are those of conversations, ``rungs`` of a replay's those that were met on a lower
    rung than the first; ``wall_s`` is the time from its first event to its last, in seconds.
    """

    requests: int = 0
    calls: int = 0
    refused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    wall_s: float = 0.0
    rungs: Mapping[int, int] = field(default_factory=dict)

    @property
    def same(self) -> int:
        """How many requests of a replay were on rung 1."""
        return self.requests - sum(self.rungs.values())


def figures_of(events: Iterable[Event], given: int = 0) -> RunFigures:
    """
    Return what a recording counts.

    Args:
        events: all of it, in order.
        given: so many answers, the first ones, came from another recording: their tokens and calls
            are not this run's.

    >>> asked = Event(0, "", 5, 1, "model.request", "agent", attrs={"conversation": "main"})
    >>> told = {"conversation": "main", "input_tokens": 7, "output_tokens": 2}
    >>> answered = Event(1, "", 2_000_005, 1, "model.response", "model", (0,), told)
    >>> found = figures_of([asked, answered])
    >>> found.requests, found.input_tokens, found.wall_s
    (1, 7, 2.0)
    """
    counts: Counter[str] = Counter()
    rungs: Counter[int] = Counter()
    answers = first = last = 0
    for n, event in enumerate(events):
        first = first if n else event.mono_us
        last = event.mono_us
        attrs = event.attrs
        live = answers > given
        if event.type == "model.request" and event.text("conversation"):
            counts["requests"] += 1
        elif event.type == "model.response" and event.text("conversation"):
            answers += 1
            if answers > given:
                for name in ("input_tokens", "output_tokens"):
                    value = attrs.get(name)
                    counts[name] += value if isinstance(value, int) else 0
        elif event.type == "tool.call" and (live or not given):
            counts["calls"] += 1
        elif event.type == "note" and event.text("kind") == "authority.decision":
            counts["refused"] += attrs.get("allowed") is False and (live or not given)
        elif event.type == "divergence" and isinstance(rung := attrs.get("rung"), int):
            rungs[rung] += 1
    return RunFigures(
        counts["requests"],
        counts["calls"],
        counts["refused"],
        counts["input_tokens"],
        counts["output_tokens"],
        (last - first) / _MILLION,
        dict(rungs),
    )


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """What a million tokens cost, asked and answered, in whatever money the person counts in."""

    asked: float
    answered: float

    def of(self, figures: RunFigures) -> float:
        """
        Return what a run cost.

        >>> ModelPrice(1.0, 5.0).of(RunFigures(input_tokens=2_000_000, output_tokens=100_000))
        2.5
        """
        asked, answered = figures.input_tokens, figures.output_tokens
        return (asked * self.asked + answered * self.answered) / _MILLION


def read_prices(content: bytes, source: str) -> dict[str, ModelPrice]:
    """
    Return the prices that a person wrote down: a table for each model, per million tokens.

    Raises:
        ConfigError: it is no TOML, or a price is none; the message names the file and the model.

    >>> read_prices(b'["a-model"]\\ninput = 3\\noutput = 15.5', "prices.toml")
    {'a-model': ModelPrice(asked=3.0, answered=15.5)}
    """
    try:
        tables = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{source}: {error}") from None
    found: dict[str, ModelPrice] = {}
    for model, table in tables.items():
        values = table if isinstance(table, dict) else {}
        prices = [values.get(name) for name in ("input", "output")]
        if set(values) != {"input", "output"} or not all(map(_is_price, prices)):
            raise ConfigError(
                f'{source}: ["{model[:80]}"] takes `input` and `output`, each a price of a million '
                "tokens"
            )
        found[model] = ModelPrice(*(float(price) for price in prices if price is not None))
    return found


def _is_price(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MILLION
