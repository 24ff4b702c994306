"""The one place that catches everything."""

from __future__ import annotations

import pytest

from broker.boundary import contained


def test_what_works_is_returned() -> None:
    """Where nothing breaks, the value passes through and nothing else is asked."""
    assert contained(lambda: 7, lambda error: pytest.fail(str(error))) == 7


def test_what_breaks_becomes_a_value() -> None:
    """An error that nobody foresaw is given to the one who answers with a refusal."""
    assert contained(lambda: int("x"), lambda error: type(error).__name__) == "ValueError"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_stop_is_not_an_error(stop: type[BaseException]) -> None:
    """An interrupt and an exit pass through."""

    def stopped() -> int:
        raise stop

    with pytest.raises(stop):
        contained(stopped, lambda error: 0)
