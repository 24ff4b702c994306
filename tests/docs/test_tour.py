"""The tour of the code is true, and its checker notices when it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.tour import faults

ROOT = Path(__file__).resolve().parents[2]
TOUR = ROOT / "docs/tour.md"


def test_the_tour_is_true() -> None:
    """Sizes are within a few lines, and every name the tour mentions exists."""
    assert faults(TOUR.read_text(encoding="utf-8"), ROOT) == []


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package of one module."""
    (tmp_path / "broker").mkdir()
    text = "LIMIT = 3\n\n\nclass Big:\n    field: int = 0\n\n    def grow(self): ...\n" + "\n" * 93
    (tmp_path / "broker/big.py").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        "`broker/big.py` (100 lines) holds `Big`, `Big.grow()`, `grow(x)` and `Big.field`",
        "`broker/big.py` (125 lines) and `broker/big.py` (75 lines)",
        "`broker.big.LIMIT` `broker.big` `broker.big.Big.grow` `broker/`",
        "`tools=@reads` `$HOME` `a b` `lower`",
        "```python\n`Gone`\n```",
    ],
)
def test_a_true_tour_has_no_fault(text: str, tree: Path) -> None:
    """Names that exist, sizes that are near, and words that are no names are all fine."""
    assert faults(text, tree) == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("`broker/big.py` (126 lines)", "has 100 lines, not 126"),
        ("`broker/big.py` (74 lines)", "not 74"),
        ("`broker/gone.py` (10 lines)", "`broker/gone.py` is gone"),
        ("see `docs/gone.md`", "gone"),
        ("see `broker.gone`", "gone"),
        ("see `broker.big.gone`", "gone"),
        ("call `vanish()`", "gone"),
        ("call `Big.vanish(x)`", "gone"),
        ("a `Small` one", "gone"),
        ("a `Big.lost` one", "gone"),
    ],
)
def test_a_tour_that_drifted_is_found(text: str, word: str, tree: Path) -> None:
    """A size that is off by more than 25 lines, or a name that is gone, is a fault."""
    (fault,) = faults(text, tree)
    assert word in fault
