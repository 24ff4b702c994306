"""
Is every text that one pattern matches also matched by one of several others?

Decided here, exactly: the difference of two languages is searched for its shortest text. The
alphabet is symbolic: characters that no pattern at hand tells apart are one symbol, so that
a pattern over all of Unicode costs as little as one over a few letters. The same search tells
whether patterns match every text that goes on from a given one (``Onward``).

Rules a maintainer keeps: this knows neither paths nor tools, only tokens and a universe of
texts; the answer counts steps, not time; when steps run out a ``LimitError`` says so, which
callers take as *not included*.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from broker.errors import LimitError
from broker.language.patterns import Chars

_KEPT: Final = 4_096  # answers, and characters, that one ``Onward`` remembers


@dataclass(frozen=True, slots=True)
class Folders:
    """The token for zero or more components, each closed by the separator."""


FOLDERS: Final = Folders()

# One character; a set of characters, once or many times; or any number of components.
Token = str | Chars | Folders
Tokens = tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Universe:
    """
    The texts that count: a text outside it is no witness.

    A deterministic automaton: ``step(state, char)`` gives the next state, -1 for none; it
    starts in 0; ``told`` are the characters it tells apart from all others. ``separator`` is
    the character that sets and stars never match (none when empty).
    """

    separator: str
    told: str
    step: Callable[[int, str], int]
    accepts: Callable[[int], bool]


class StepBudget:
    """Counts the steps of one decision, which may take several searches."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """
        Take ``steps`` off.

        Raises:
            LimitError: there are not so many left.
        """
        self.left -= steps
        if self.left < 0:
            raise LimitError("too many steps to decide an inclusion", limit="inclusion")


class _Machine:
    """
    Several token sequences as one nondeterministic automaton; sets of states are bit masks.

    Each token is a state that the automaton leaves by it, ``FOLDERS`` two: at the start of a
    component, and inside one. Behind each sequence comes a final state.
    """

    __slots__ = ("chars", "final", "first", "folders", "inside", "length", "many", "places",
                 "separator", "stepped", "universal")  # fmt: skip

    def __init__(self, sequences: Sequence[Tokens], separator: str) -> None:
        self.separator = separator
        self.places: dict[str, list[int]] = {}
        self.chars: list[tuple[Chars, int]] = []
        self.first = self.final = self.many = self.folders = self.inside = self.universal = 0
        self.stepped: dict[str, tuple[int, int, int]] = {}
        at = 0
        for tokens in sequences:
            self.first |= 1 << at
            for token in tokens:
                at = self._add(token, at)
            if tokens and tokens[-1] == FOLDERS:
                self.universal |= 0b11 << (at - 2)
            elif tokens and not separator and isinstance(tokens[-1], Chars) and tokens[-1].many:
                self.universal |= 1 << (at - 1)
            self.final |= 1 << at
            at += 1
        self.length = at
        self.first = self._closed(self.first)

    def _add(self, token: Token, at: int) -> int:
        if isinstance(token, Folders):
            self.folders |= 1 << at
            self.inside |= 1 << (at + 1)
            return at + 2
        if isinstance(token, str):
            self.places.setdefault(token, []).append(at)
        elif token.many:
            self.many |= 1 << at
        else:
            self.chars.append((token, at))
        return at + 1

    def _closed(self, states: int) -> int:
        # No two FOLDERS and no two stars stand side by side, and a star is never followed by
        # FOLDERS, so each kind of empty step is taken once, FOLDERS first.
        states |= (states & self.folders) << 2
        return states | (states & self.many) << 1

    def _masks(self, char: str) -> tuple[int, int, int]:
        """Return the states that go on by ``char``, that stay, and that fall back by one."""
        bits = bytearray(self.length // 8 + 1)
        for at in self.places.get(char, ()):
            bits[at >> 3] |= 1 << (at & 7)
        if char == self.separator:
            return int.from_bytes(bits, "little"), 0, self.inside
        for chars, at in self.chars:
            if chars.admits(char):
                bits[at >> 3] |= 1 << (at & 7)
        onwards = int.from_bytes(bits, "little") | self.folders
        return onwards, self.many | self.inside, 0

    def step(self, states: int, char: str) -> int:
        """Return the states after ``char``."""
        masks = self.stepped.get(char)
        if masks is None:
            masks = self.stepped[char] = self._masks(char)
        onwards, staying, falling = masks
        moved = (states & onwards) << 1 | (states & staying) | (states & falling) >> 1
        return self._closed(moved) if moved else 0


# Symbols are shown to people in witnesses: letters first.
_SHOWN: Final = "xyzabcdefghijklmnopqrstuvw0123456789"


def _symbols(
    narrow: Tokens, wide: Iterable[Tokens], told: str, budget: StepBudget
) -> tuple[str, ...]:
    """
    Return one character for each kind that must be told apart where ``narrow`` has a choice.

    Its own literals are left out: where it asks for one, that one is tried.
    """
    literals = set(told)
    sets: dict[Chars, None] = {}
    for tokens in wide:
        literals.update(t for t in tokens if isinstance(t, str))
    for tokens in (narrow, *wide):
        sets.update((t, None) for t in tokens if isinstance(t, Chars) and t.ranges)
    cuts = {0}
    for char in literals:
        cuts.add(ord(char) + 1)
    for chars in sets:
        for first, last in chars.ranges:
            cuts.update((first, last + 1))
    budget.spend((len(cuts) + len(_SHOWN)) * len(sets) // 8)
    kinds: dict[tuple[bool, ...], str] = {}
    cuts.discard(0x110000)
    for char in (*_SHOWN, *(chr(c) for c in sorted(cuts, reverse=True))):
        if char not in literals:
            kinds.setdefault(tuple(chars.admits(char) for chars in sets), char)
    return (*sorted(literals), *kinds.values())


def _bits(states: int) -> Iterator[int]:
    while states:
        lowest = states & -states
        yield lowest
        states ^= lowest


# One way on from a state of `narrow`: the symbol, and the states that it leads to.
_Move = tuple[str, tuple[int, ...]]


def _moves(machine: _Machine, state: int, symbols: Iterable[str]) -> list[_Move]:
    ways = ((char, machine.step(state, char)) for char in symbols)
    return [(char, tuple(_bits(after))) for char, after in ways if after]


def witness(
    narrow: Tokens, wide: Sequence[Tokens], universe: Universe, budget: StepBudget
) -> str | None:
    """
    Return a shortest text of the universe that ``narrow`` matches and no ``wide`` does.

    Args:
        narrow: one token sequence.
        wide: token sequences, of which any may match.
        universe: the texts that count.
        budget: the steps that may still be taken.

    Returns:
        None when there is no such text: ``narrow`` is included.

    Raises:
        LimitError: the budget is spent.
    """
    symbols = _symbols(narrow, wide, universe.told + universe.separator, budget)
    theirs = _Machine(wide, universe.separator)
    budget.spend(1 + theirs.length // 64 + len(symbols) * len(theirs.chars) // 8)
    return _search(narrow, symbols, (theirs, theirs.first), universe, budget)


def _search(
    narrow: Tokens,
    symbols: Sequence[str],
    wide: tuple[_Machine, int],
    universe: Universe,
    budget: StepBudget,
) -> str | None:
    """Look for a text that ``narrow`` matches and the machine, from its states on, does not."""
    theirs, first = wide
    mine = _Machine((narrow,), universe.separator)
    cost = 1 + theirs.length // 512
    asked = {1 << at: char for char, places in mine.places.items() for at in places}
    moves: dict[int, list[_Move]] = {}
    # A node is a state of `narrow`, the states of `wide`, and one of the universe. A node
    # with more states of `wide` than a known one leads to nothing that the known one lacks.
    known: dict[tuple[int, int], list[int]] = {}
    trail: list[tuple[int, str]] = []
    queue = deque((state, first, 0, -1) for state in _bits(mine.first))
    while queue:
        state, others, place, came_by = queue.popleft()
        if state & mine.final and universe.accepts(place) and not others & theirs.final:
            return _spelled(trail, came_by)
        if others & theirs.universal:
            continue
        if state not in moves:
            moves[state] = _moves(mine, state, asked.get(state, symbols))
        for char, successors in moves[state]:
            following = universe.step(place, char)
            if following < 0:
                continue
            others_after = theirs.step(others, char)
            trail.append((came_by, char))
            for successor in successors:
                seen = known.setdefault((successor, following), [])
                budget.spend(cost * (1 + len(seen) // 32))
                if any(fewer & ~others_after == 0 for fewer in seen):
                    continue
                seen.append(others_after)
                queue.append((successor, others_after, following, len(trail) - 1))
    return None


def _spelled(trail: list[tuple[int, str]], last: int) -> str:
    chars = []
    while last >= 0:
        last, char = trail[last]
        chars.append(char)
    return "".join(reversed(chars))


def shortest(
    inside: Sequence[Sequence[Tokens]],
    outside: Sequence[Tokens],
    universe: Universe,
    budget: StepBudget,
) -> str | None:
    """
    Return a shortest text of the universe that is matched by each list within, and not without.

    Args:
        inside: lists of token sequences; of each list one must match.
        outside: token sequences, none of which may match.
        universe: the texts that count.
        budget: the steps that may still be taken.

    Returns:
        None when there is no such text.

    Raises:
        LimitError: the budget is spent.
    """
    every = [*[tokens for each in inside for tokens in each], *outside]
    told = universe.told + universe.separator
    # Of texts of one length the plainest is found first.
    symbols = sorted(_symbols((), every, told, budget), key=lambda c: (not c.isalnum(), c))
    machines = [_Machine(each, universe.separator) for each in (*inside, outside)]
    *mine, theirs = machines
    cost = 1 + sum(machine.length for machine in machines) // 512
    start = (*[machine.first for machine in machines], 0)
    known = {start}
    trail: list[tuple[int, str]] = []
    queue = deque([(start, -1)])
    while queue:
        (*states, place), came_by = queue.popleft()
        if (
            universe.accepts(place)
            and all(s & m.final for s, m in zip(states, mine, strict=False))
            and not states[-1] & theirs.final
        ):
            return _spelled(trail, came_by)
        for char in symbols:
            budget.spend(cost)
            following = universe.step(place, char)
            after = [m.step(s, char) for m, s in zip(machines, states, strict=True)]
            if following < 0 or not all(after[:-1]) or (*after, following) in known:
                continue
            known.add((*after, following))
            trail.append((came_by, char))
            queue.append(((*after, following), len(trail) - 1))
    return None


class Onward:
    """
    What several token sequences match behind a text that was read already.

    Many texts lead to the same states, so answers are kept by those.

    Args:
        sequences: token sequences, of which any may match.
        universe: the texts that count.
        steps: what one answer may cost.

    Raises:
        LimitError: so few steps do not suffice for any answer.

    >>> from broker.language.patterns import MANY
    >>> closed = Universe("/", "", lambda state, char: int(char != "/"), lambda state: state == 0)
    >>> onward = Onward([("a", "/", FOLDERS, MANY, "/")], closed, 1_000)
    >>> onward.covers("a/"), onward.covers("a/b/")
    (False, True)
    """

    __slots__ = ("_kept", "_machine", "_steps", "_symbols", "_universe")

    def __init__(self, sequences: Sequence[Tokens], universe: Universe, steps: int) -> None:
        told = universe.told + universe.separator
        self._symbols = _symbols((FOLDERS,), sequences, told, StepBudget(steps))
        self._machine = _Machine(sequences, universe.separator)
        self._universe = universe
        self._steps = steps
        self._kept: dict[int, bool] = {}

    def covers(self, text: str) -> bool:
        """
        Whether the sequences match ``text`` and every text that adds closed components to it.

        Args:
            text: behind it the universe stands where it began, as behind closed components.

        Returns:
            False also when the steps run out before an answer is found.
        """
        machine, states = self._machine, self._machine.first
        if len(machine.stepped) > _KEPT:
            machine.stepped.clear()
        for char in text:
            states = machine.step(states, char)
            if not states:
                return False
        answer = self._kept.get(states)
        if answer is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            answer = self._kept[states] = self._search(states)
        return answer

    def _search(self, states: int) -> bool:
        budget = StepBudget(self._steps)
        wide = (self._machine, states)
        try:
            found = _search((FOLDERS,), self._symbols, wide, self._universe, budget)
        except LimitError:
            return False
        return found is None
