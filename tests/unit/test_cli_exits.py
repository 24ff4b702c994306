"""The exit codes are what scripts were promised."""

from __future__ import annotations

from broker.cli import exits


def test_codes_never_change() -> None:
    """The numbers are those of the documentation and of shells."""
    assert (exits.ALLOWED, exits.REFUSED, exits.UNDECIDED, exits.INTERRUPTED) == (0, 1, 2, 130)
    for code in ("0 allowed or verified", "1 refused or not verified", "2 bad input"):
        assert code in exits.MEANING
