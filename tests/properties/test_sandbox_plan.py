"""Whatever a ticket and a workspace are, the walls grant nothing that the ticket does not."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from broker.bounds import Bounds, PathBound, root_bounds
from broker.caveats import Caveat, paths, reads, writes
from broker.globs import path_matcher
from broker.sandbox.plan import Item, Walls, guarded, make_plan, uncut

NAMES = ("a", "b", "ab", ".git", ".broker", "x.py", "y.py")
PATTERNS = (
    *("a", "a/**", "**", "*", "a/*", "**/*.py", "a/**/*.py", "b/a", "?", "**/b/**", "a/.git/**"),
    *(".git/**", ".git", "**/.git/**", "[ab]/**", "a/x.py", "ab/*/x.py", ".broker/**", "**/a"),
)

Tree = dict[str, list[Item]]


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Draw a small workspace."""
    tree: Tree = {}

    def fill(place: str, depth: int) -> None:
        entries = []
        for name in draw(st.sets(st.sampled_from(NAMES), max_size=4)):
            kind = draw(st.sampled_from(["folder", "file", "file", "link"] if depth else ["file"]))
            second = kind == "file" and draw(st.booleans())
            entries.append(Item(name, kind, second))  # type: ignore[arg-type]  # one of these
            if kind == "folder":
                fill(f"{place}{name}/", depth - 1)
        tree[place] = entries

    fill("", 3)
    return tree


@st.composite
def lists(draw: st.DrawFn) -> tuple[Caveat, ...]:
    """Draw one to three lists of path patterns."""
    kinds = st.sampled_from([paths, reads, writes])
    found = st.lists(st.sampled_from(PATTERNS), max_size=3, unique=True)
    return tuple(draw(kinds)(*draw(found)) for _ in range(draw(st.integers(1, 3))))


def there(tree: Tree) -> Iterator[tuple[str, Item | None]]:
    """Yield every place of a tree, and beside each some that are not there yet."""
    for place, entries in tree.items():
        for entry in entries:
            yield f"{place}{entry.name}/", entry
        taken = {entry.name for entry in entries}
        for name in NAMES:
            if name not in taken:
                yield f"{place}{name}/", None
                yield f"{place}{name}/new/x.py/", None


def admitted(bounds: tuple[PathBound, ...], place: str, entry: Item | None, write: bool) -> bool:
    """Say naively what the gate says of one place."""
    if write and (entry is not None and entry.second):
        return False
    if write and guarded(place):
        if place.startswith(".broker/"):
            return False
        for bound in bounds:
            git = path_matcher(bound.patterns).git
            if git is None or not git.match(place):
                return False
        return True
    return all(path_matcher(bound.patterns).match(place) for bound in bounds)


def inside_new_guarded(tree: Tree, place: str) -> bool:
    """Whether a place lies in a guarded folder that is not there: a wall cannot stop a name."""
    parts = place[:-1].split("/")
    above = ""
    for part in parts:
        known = {entry.name for entry in tree.get(above, [])}
        above = f"{above}{part}/"
        if guarded(above):
            return part not in known
    return False


def through_no_folder(tree: Tree, place: str) -> bool:
    """Whether a part before the last is a file or link, so that nothing can lie there."""
    parts = place[:-1].split("/")
    above = ""
    for part in parts[:-1]:
        kinds = {e.name: e.kind for e in tree.get(above, [])}
        if kinds.get(part, "folder") != "folder":
            return True
        above = f"{above}{part}/"
    return False


def check(tree: Tree, bounds: tuple[PathBound, ...], walls: Walls | None, write: bool) -> None:
    """Hold the walls of one access against the naive answer, place by place."""
    if walls is None:
        assert not bounds
        return
    for place, entry in there(tree):
        if through_no_folder(tree, place) or (write and inside_new_guarded(tree, place)):
            continue
        if walls.admits(place) and not (write and entry is not None and entry.kind == "link"):
            assert admitted(bounds, place, entry, write), place


@given(trees(), lists())
def test_walls_grant_no_more_than_the_ticket(tree: Tree, caveats: tuple[Caveat, ...]) -> None:
    """Nothing that the gate refuses by the same lists is ever granted, new entries included."""
    bounds = root_bounds(caveats)
    plan = make_plan(bounds, lambda place: tree.get(place, []))
    check(tree, bounds.reads, plan.reads, write=False)
    check(tree, bounds.writes, plan.writes, write=True)


@given(trees(), lists())
def test_uncut_walls_grant_no_more_than_cut_ones(tree: Tree, caveats: tuple[Caveat, ...]) -> None:
    """An engine that cannot cut grants a part of what one that can does, and has no cuts."""
    plan = make_plan(root_bounds(caveats), lambda place: tree.get(place, []))
    for walls in (plan.reads, plan.writes):
        if walls is None:
            continue
        flat = uncut(walls, lambda place: tree.get(place, []))
        assert flat.cuts == ()
        for place, _ in there(tree):
            if flat.admits(place):
                assert walls.admits(place)


@given(trees(), lists())
def test_what_is_written_can_be_read(tree: Tree, caveats: tuple[Caveat, ...]) -> None:
    """No mount can be written and not read, so the walls never say so."""
    bounds: Bounds = root_bounds(caveats)
    plan = make_plan(bounds, lambda place: tree.get(place, []))
    if plan.reads is not None and plan.writes is not None:
        for place, _ in there(tree):
            if plan.writes.admits(place):
                assert plan.reads.admits(place)


@given(trees(), st.sampled_from(["a/**", "**", "a", "b/a"]))
def test_a_tree_of_one_pattern_is_granted_whole(tree: Tree, pattern: str) -> None:
    """Where a pattern is a tree that is there, the walls leave out only what the gate refuses."""
    bounds = root_bounds((writes(pattern),))
    plan = make_plan(bounds, lambda place: tree.get(place, []))
    assert plan.writes is not None
    for place, entry in there(tree):
        if through_no_folder(tree, place) or inside_new_guarded(tree, place):
            continue
        if entry is not None and entry.kind == "link":
            continue
        head = pattern.removesuffix("**")
        if entry is None and not any(
            s.place and head.startswith(s.place) for s in plan.writes.spots
        ):
            continue
        if admitted(bounds.writes, place, entry, write=True):
            assert plan.writes.admits(place), place
