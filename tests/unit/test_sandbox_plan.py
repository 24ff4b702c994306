"""From a ticket to trees: what is granted, what is cut out, what is said."""

from __future__ import annotations

import pytest

from broker.bounds import root_bounds
from broker.caveats import Caveat, hosts, paths, reads, tools, writes
from broker.errors import LimitError
from broker.sandbox.plan import Item, Plan, Spot, Walls, around, guarded, make_plan, uncut

TREE = {
    "": [
        Item("src", "folder"),
        Item("docs", "folder"),
        Item("key", "file"),
        Item(".git", "folder"),
    ],
    "src/": [
        *(Item("a.py", "file"), Item("b.txt", "file"), Item("hard", "file", True)),
        *(Item("link", "link"), Item("sub", "folder"), Item(".git", "file")),
    ],
    "src/sub/": [Item("c.py", "file"), Item("pipe", "other"), Item(".git", "folder")],
    "src/sub/.git/": [Item("config", "file"), Item("hooks", "folder")],
    ".git/": [Item("config", "file")],
    "docs/": [Item("x.md", "file")],
}


def plan(*caveats: Caveat) -> Plan:
    """Plan the walls of a ticket in the tree."""
    return make_plan(root_bounds(tuple(caveats)), lambda place: TREE.get(place, []))


def test_a_tree_is_granted_whole() -> None:
    """A folder that the ticket covers is one spot, with what the gate refuses cut out."""
    found = plan(paths("src/**"))
    assert found.reads == Walls((Spot("src/", "folder"),))
    assert found.writes == Walls(
        (Spot("src/", "folder"),), ("src/.git/", "src/hard/", "src/sub/.git/")
    )
    assert any("kept from being written" in note for note in found.notes)


def test_a_pattern_is_what_it_matches_now() -> None:
    """A pattern that is no tree grants the entries that it matches, and says so."""
    found = plan(paths("src/**/*.py"))
    spots = (Spot("src/a.py/", "file"), Spot("src/sub/c.py/", "file"))
    assert found.writes == Walls(spots)
    assert found.reads == Walls(spots)
    assert any("only what it matches now" in note for note in found.notes)


def test_what_is_not_there_is_said() -> None:
    """A folder that the scope names and that does not exist grants nothing, and is told."""
    found = plan(paths("new/**"))
    assert found.writes == Walls(())
    assert any("not there yet" in note for note in found.notes)


def test_git_is_written_where_it_is_named() -> None:
    """A pattern that names `.git` grants it, in whatever folder it names it."""
    found = plan(writes("src/**", "src/sub/.git/**"))
    assert found.writes is not None
    assert found.writes.cuts == ("src/.git/", "src/hard/")


def test_two_lists_must_both_admit() -> None:
    """What one list leaves out is not granted by another."""
    found = plan(paths("src/**"), writes("**/*.py"))
    assert found.reads == Walls((Spot("src/", "folder"),))
    assert found.writes == Walls((Spot("src/a.py/", "file"), Spot("src/sub/c.py/", "file")))


def test_what_is_written_is_readable_too() -> None:
    """A tree that may be written and not read is not granted, and that is said."""
    found = plan(reads("docs/**"), writes("src/**"))
    assert found.writes == Walls(())
    assert any("not readable too" in note for note in found.notes)


def test_a_link_is_shown_and_never_written() -> None:
    """A link that is admitted is readable as a link; where it leads is another place."""
    found = plan(paths("src/l*"))
    assert found.reads == Walls((Spot("src/link/", "link"),))
    assert found.writes == Walls(())


@pytest.mark.parametrize(
    ("caveats", "network", "free"),
    [
        ((paths("src/**"),), False, False),
        ((hosts("example.com"),), True, False),
        ((hosts(),), True, False),
        ((paths("src/**"), hosts("a.example")), True, False),
        ((tools("read"),), True, True),
    ],
)
def test_the_network(caveats: tuple[Caveat, ...], network: bool, free: bool) -> None:
    """A scope of paths alone reaches no host, and one of neither is left alone."""
    found = plan(*caveats)
    assert (found.network, found.free) == (network, free)


def test_an_unlimited_access_has_no_walls() -> None:
    """What no list limits is None, which is not the same as an empty one."""
    found = plan(writes("src/**"))
    assert found.reads is None
    assert plan(hosts("a.example")).writes is None
    assert plan(paths()).writes == Walls(())


def test_a_workspace_that_is_too_large() -> None:
    """A walk has a ceiling, and so has the number of single places."""
    many = [Item(f"f{n}.py", "file") for n in range(2_000)]
    with pytest.raises(LimitError, match="name folders"):
        make_plan(root_bounds((paths("*.py"),)), lambda place: [] if place else many)
    endless = [Item("d", "folder")] + [Item(f"f{n}", "file") for n in range(50_000)]
    with pytest.raises(LimitError, match="name fewer"):
        make_plan(root_bounds((paths("**"),)), lambda place: endless)


def test_many_second_names_close_a_folder() -> None:
    """A folder full of files with second names is cut as a whole."""
    tree = {
        "": [Item("store", "folder"), Item("a", "file")],
        "store/": [Item(f"f{n}", "file", True) for n in range(100)],
    }
    found = make_plan(root_bounds((writes("**"),)), lambda place: tree.get(place, []))
    assert found.writes == Walls((Spot("", "folder"),), ("store/",))


def test_around_and_uncut() -> None:
    """What cannot be cut is granted piece by piece beside it, new entries left out."""
    walls = Walls((Spot("src/", "folder"), Spot("docs/", "folder")), ("src/sub/.git/", "src/.git/"))
    found = uncut(walls, lambda place: TREE.get(place, []))
    assert found.cuts == ()
    assert found.admits("src/sub/c.py/")
    assert found.admits("docs/new/")
    assert not found.admits("src/sub/.git/config/")
    assert not found.admits("src/new/")
    assert around([], lambda _: []) == (Spot("", "folder"),)
    assert uncut(Walls((Spot("a/", "folder"),), ("a/",)), lambda _: []) == Walls(())


def test_guarded_names() -> None:
    """`.git` in any folder and letter case, and the workspace's settings, are guarded."""
    for place in (".git/", "a/.GIT/x/", ".broker/x/", ".Broker/"):
        assert guarded(place)
    for place in (".github/", "a/.broker/", "git/", ""):
        assert not guarded(place)
