"""The repository keeps its own rules; each rule is a function of `checks.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repo import checks

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("check", checks.ALL, ids=lambda check: check.__name__)
def test_rule(check: Callable[[Path], list[str]]) -> None:
    """The tree has no fault under this rule."""
    faults = check(ROOT)
    assert not faults, f"{check.__doc__}\n" + "\n".join(faults)
