"""Levels, what is asked for, and a head as a person writes it down."""

from __future__ import annotations

from itertools import product

import pytest

from broker.errors import Break, InputError
from broker.receipt.demand import LEVELS, expected_head, promised, reaches


def test_levels_are_in_one_order() -> None:
    """Each level reaches itself and those below it, and no other."""
    for (i, one), (j, other) in product(enumerate(LEVELS), repeat=2):
        assert reaches(one, other) == (i >= j)


@pytest.mark.parametrize(
    ("text", "level"),
    [("{}", "mac"), ('{"level":"mac"}', "mac"), ('{"level":"anchored"}', "anchored")],
)
def test_a_promise_is_read(text: str, level: str) -> None:
    """The open line says which level the session promises; silence is the old promise."""
    assert promised(text) == level


@pytest.mark.parametrize("said", ['"chain"', '"MAC"', "1", "true", "null", '["mac"]', '"best"'])
def test_an_unknown_promise_is_a_break(said: str) -> None:
    """A promise that cannot be kept is not taken for a smaller one."""
    with pytest.raises(Break) as caught:
        promised(f'{{"level":{said}}}')
    assert caught.value.reason == "level"


def test_a_head_that_somebody_wrote_down() -> None:
    """A head is a number of lines and 64 lower-case hex digits."""
    assert expected_head("12:" + "0f" * 32) == (12, "0f" * 32)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12",
        "0:" + "0f" * 32,
        "012:" + "0f" * 32,
        "-1:" + "0f" * 32,
        "12:" + "0F" * 32,
        "12:" + "0f" * 31,
        " 12:" + "0f" * 32,
        "12:" + "0f" * 32 + "\n",
        "\u0661:" + "0f" * 32,
        "9" * 17 + ":" + "0f" * 32,
    ],
)
def test_another_spelling_of_a_head_is_refused(text: str) -> None:
    """A head that was copied in part is an error, never a demand that nothing can fail."""
    with pytest.raises(InputError, match="N:HASH"):
        expected_head(text)
