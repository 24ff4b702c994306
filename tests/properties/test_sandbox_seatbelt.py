"""Whatever a ticket and a workspace are, a profile permits what the plan grants, and no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.bounds import root_bounds
from broker.caveats import Caveat
from broker.errors import LaunchError
from broker.sandbox.plan import Item, Walls, make_plan
from broker.sandbox.seatbelt import Doors, profile, quoted
from broker.sandbox.walled import Needs, Walled
from tests.properties.test_sandbox_plan import Tree, lists, there, trees
from tests.seatbeltkit import forms, permits, rules

HIDDEN = ("/w/a/b", "/w/x.py", "/h/.ssh")
OUTSIDE = ("/h/notes", "/w2/a", "/etc/shadow", "/w-b/x.py", "/")


def walled(tree: Tree, caveats: tuple[Caveat, ...], hidden: tuple[str, ...]) -> Walled:
    """Return a run in a workspace that is not there."""
    plan = make_plan(root_bounds(caveats), lambda place: tree.get(place, []))
    needs = Needs(("/h/.agent",), ("/h/.agent/settings",), ("/h/.agent/talks",))
    return Walled("/w", plan, "/h", "/s", ("/usr",), needs, hidden, ("/s/hook",), ("/s/egress",))


def admits(walls: Walls | None, place: str, hidden: tuple[str, ...], *, write: bool) -> bool:
    """Say naively what a plan says of a place, and what is hidden under every plan."""
    path = f"/w/{place}"
    if any(path.startswith(f"{each}/") for each in hidden):
        return False
    if walls is None:
        return not (write and place.startswith(".broker/"))
    return walls.admits(place)


@given(trees(), lists(), st.sets(st.sampled_from(HIDDEN)))
def test_a_profile_permits_what_the_plan_grants(
    tree: Tree, caveats: tuple[Caveat, ...], hidden: set[str]
) -> None:
    """In the workspace the rules answer as the plan does, and beside it nothing is open."""
    run = walled(tree, caveats, tuple(sorted(hidden)))
    text = profile(run, Doors(writable=("/s/tmp",)), real=lambda path: path)
    found = rules(text)
    for place, _ in there(tree):
        path = f"/w/{place[:-1]}"
        reads = admits(run.plan.reads, place, run.hidden, write=False)
        writes = admits(run.plan.writes, place, run.hidden, write=True)
        assert permits(found, "file-read-data", path) == reads, path
        assert permits(found, "file-write-data", path) == writes, path
        assert permits(found, "file-write-create", path) == writes, path
        assert permits(found, "process-exec", path) == reads, path
    for path in OUTSIDE:
        if run.plan.reads is not None:
            assert not permits(found, "file-read-data", path)
        if run.plan.writes is not None:
            assert not permits(found, "file-write-data", path)
    for walls in (run.plan.reads, run.plan.writes):
        for spot in walls.spots if walls is not None else ():
            assert quoted(run.absolute(spot.place)) in text


@given(trees(), lists(), st.sets(st.sampled_from(HIDDEN)))
def test_no_closed_place_can_be_moved_into_the_open(
    tree: Tree, caveats: tuple[Caveat, ...], hidden: set[str]
) -> None:
    """What a profile lets be moved or removed holds no place that is closed by its name."""
    run = walled(tree, caveats, tuple(sorted(hidden)))
    found = rules(profile(run, Doors(), real=lambda path: path))
    closed = [*run.hidden, *(run.cuts(run.plan.writes) if run.plan.writes is not None else ())]
    for place, _ in there(tree):
        path = f"/w/{place[:-1]}"
        if permits(found, "file-write-unlink", path):
            assert not any(f"{each}/".startswith(f"{path}/") for each in closed)


@given(st.text())
def test_a_text_is_written_in_one_way(text: str) -> None:
    """What is quoted is read back as it was, and what cannot be is refused."""
    try:
        found = quoted(text)
    except LaunchError:
        plain = text.isprintable() and len(text) < 200
        assert not plain
        return
    assert forms(f"(a {found})") == [["a", '"' + text]]


@pytest.mark.parametrize("name", ["a\nb", "\x00", "a\x7f", "\udcff", "x" * 1_001, "é" * 501])
def test_what_no_profile_can_name_is_refused(name: str) -> None:
    """A control character, bytes that are no text, and what is too long end the start."""
    tree = {"": [Item(name, "folder")]}
    run = walled(tree, (), (f"/w/{name}",))
    with pytest.raises(LaunchError):
        profile(run, Doors(), real=lambda path: path)
