"""The search for a text that one token sequence matches and others do not."""

from __future__ import annotations

import pytest

from broker.errors import LimitError
from broker.language.inclusion import (
    FOLDERS,
    Onward,
    StepBudget,
    Tokens,
    Universe,
    shortest,
    witness,
)
from broker.language.patterns import MANY, ONE, Chars

EVERY = Universe("", "", lambda _state, _char: 0, lambda _state: True)
CLOSED = Universe(
    "/", "", lambda state, char: int(char != "/") if state or char != "/" else -1, lambda s: s == 0
)

LETTERS = Chars(((ord("a"), ord("z")),), negated=False)
NO_LETTERS = Chars(((ord("a"), ord("z")),), negated=True)


@pytest.mark.parametrize(
    ("narrow", "wide", "found"),
    [
        (("a",), [("a",)], None),
        (("a",), [], "a"),
        ((), [], ""),
        ((), [()], None),
        (("a",), [(ONE,)], None),
        ((ONE,), [("a",)], "x"),
        ((ONE,), [LETTERS, NO_LETTERS], None),
        ((LETTERS,), [("x",), ("y",)], "z"),
        ((LETTERS,), [NO_LETTERS], "x"),
        ((MANY,), [(), (ONE,), (ONE, ONE)], "xxx"),
        ((MANY,), [(), (ONE, MANY)], None),
        ((MANY, "a"), [(MANY, "a", MANY)], None),
        ((MANY, "a", MANY), [(MANY, "a")], "ax"),
        (("a", MANY, "b"), [("a", MANY, "c"), (MANY, "b")], None),
    ],
)
def test_witness(narrow: Tokens, wide: list[Tokens | Chars], found: str | None) -> None:
    """The witness is a shortest one, and None when there is none."""
    sequences = [(w,) if isinstance(w, Chars) else w for w in wide]
    assert witness(narrow, sequences, EVERY, StepBudget(10_000)) == found


@pytest.mark.parametrize(
    ("narrow", "wide", "found"),
    [
        ((FOLDERS,), [(FOLDERS,)], None),
        ((FOLDERS,), [(MANY, "/")], ""),
        ((FOLDERS,), [(), (MANY, "/")], "x/x/"),
        ((FOLDERS,), [(), (MANY, "/", FOLDERS)], None),
        ((FOLDERS, "a", "/"), [(FOLDERS, ONE, "/")], None),
        ((FOLDERS, ONE, "/"), [(FOLDERS, "a", "/")], "x/"),
        ((MANY, "/", FOLDERS), [(FOLDERS, MANY, "/")], None),
        (("a", "/", FOLDERS), [("a", FOLDERS)], None),
    ],
)
def test_witness_of_components(narrow: Tokens, wide: list[Tokens], found: str | None) -> None:
    """Components are closed by the separator, which stars do not match."""
    assert witness(narrow, wide, CLOSED, StepBudget(10_000)) == found


@pytest.mark.parametrize(
    ("sequences", "text", "covered"),
    [
        ([(FOLDERS,)], "", True),
        ([(FOLDERS, MANY, "/")], "", False),
        ([(FOLDERS, MANY, "/")], "a/", True),
        ([("a", "/")], "a/", False),
        ([("a", "/"), ("a", "/", MANY, "/", FOLDERS)], "a/", True),
        ([("a", "/", FOLDERS)], "b/", False),
        ([], "", False),
    ],
)
def test_what_lies_onward(sequences: list[Tokens], text: str, covered: bool) -> None:
    """Everything behind a text is matched, the text itself too, or it is not."""
    onward = Onward(sequences, CLOSED, 10_000)
    assert onward.covers(text) is covered
    assert onward.covers(text) is covered


def test_the_universe_is_respected() -> None:
    """A text outside the universe is no witness."""
    even = Universe("", "", lambda state, _char: 1 - state, lambda state: state == 0)
    assert witness((MANY,), [(), (ONE, ONE, MANY)], EVERY, StepBudget(100)) == "x"
    assert witness((MANY,), [(), (ONE, ONE, MANY)], even, StepBudget(100)) is None


def test_the_last_character_of_unicode_is_a_symbol() -> None:
    """A set that leaves out one character at either end is told from the whole."""
    for code in (0, 0x10FFFF):
        other = Chars(((code, code),))
        assert witness((ONE,), [(other,)], EVERY, StepBudget(100)) == chr(code)
    for first, last, left in ((0, 0x10FFFE, 0x10FFFF), (1, 0x10FFFF, 0)):
        others = Chars(((first, last),), negated=False)
        assert witness((ONE,), [(others,)], EVERY, StepBudget(100)) == chr(left)


def test_a_budget_ends() -> None:
    """The last step that there is may be taken, the next may not."""
    budget = StepBudget(3)
    budget.spend(3)
    with pytest.raises(LimitError):
        budget.spend(1)


def test_hard_inclusions_end() -> None:
    """A search through exponentially many states ends in a limit, not in a long wait."""

    def all_texts(length: int) -> list[Tokens]:
        a, other = Chars(((97, 97),), negated=False), Chars(((97, 97),))
        ends: list[Tokens] = [(MANY, c, *[ONE] * length) for c in (a, other)]
        return ends + [(ONE,) * n for n in range(length + 1)]

    assert witness((MANY,), all_texts(5), EVERY, StepBudget(10_000)) is None
    with pytest.raises(LimitError):
        witness((MANY,), all_texts(20), EVERY, StepBudget(10_000))


def test_a_shortest_text_of_several_lists() -> None:
    """It is in each of the lists within, and in none without; and none is found where none is."""
    ab, bc = [("a",), ("b",)], [("b",), ("c",)]
    assert shortest([ab, bc], [], EVERY, StepBudget(1_000)) == "b"
    assert shortest([ab, bc], [("b",)], EVERY, StepBudget(1_000)) is None
    assert shortest([], [(MANY, "x", MANY)], EVERY, StepBudget(1_000)) == ""
    with pytest.raises(LimitError):
        shortest([[(MANY, "x", MANY)]], [(MANY, "x", MANY)], EVERY, StepBudget(3))
