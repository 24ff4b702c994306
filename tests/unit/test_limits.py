"""Limits: each one is a positive number with a unit beside it."""

from __future__ import annotations

import re
from pathlib import Path

from broker import limits


def test_every_limit_is_a_positive_number() -> None:
    """A ceiling is an int above zero; only a duration, named `…_S`, may be a fraction."""
    values = {name: value for name, value in vars(limits).items() if name.startswith("MAX_")}
    assert values
    for name, value in values.items():
        assert type(value) is int or (type(value) is float and name.endswith("_S")), name
        assert value > 0


def test_every_limit_says_its_unit() -> None:
    """Each ceiling stands on a line of its own, final, with a comment that says what it counts."""
    lines = Path(limits.__file__).read_text(encoding="utf-8").splitlines()
    named = [line for line in lines if line.startswith("MAX_")]
    assert len(named) == sum(name.isupper() for name in vars(limits) if name.startswith("MAX_"))
    assert all(re.match(r"MAX_[A-Z_]+: Final = \S.*  # \S", line) for line in named)


def test_the_limits_that_formats_fix() -> None:
    """Numbers that a format or another standard fixes do not drift."""
    assert limits.MAX_CALLS == 2_147_483_647
    assert limits.MAX_SAFE_INT == 9_007_199_254_740_991
    assert limits.MAX_LINE_BYTES == 1_048_576
