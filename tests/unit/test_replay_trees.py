"""Places become the smallest list of patterns that a person reads at a glance."""

from __future__ import annotations

import pytest

from broker.globs import check_path, path_matcher
from broker.replay.trees import literal, readable


@pytest.mark.parametrize(
    "place", ["a*b/", "a?/", "[x]/y/", "{a}/", "a\\b/", "!a/", "~/x/", "C:/x/", "a\x01b/", "-a/"]
)
def test_a_name_means_itself(place: str) -> None:
    """Whatever a name holds, its pattern can be typed and matches it."""
    text = literal(place)
    assert check_path(text)
    assert path_matcher((check_path(text),)).match(place)


def test_a_special_name_opens_no_other() -> None:
    """A star in a name stands for a star."""
    assert not path_matcher((check_path(literal("a*b/")),)).match("axb/")


def test_one_entry_stays_alone() -> None:
    """A folder is not opened for one entry of it."""
    assert [p.text for p in readable({"src/a.py/": False})] == ["src/a.py"]


def test_a_long_list_opens_the_deepest_shared_folder() -> None:
    """When there are too many patterns, the deepest folder that several lie in becomes one."""
    touched = {f"src/p{n}/a.py/": False for n in range(9)} | {"docs/x.md/": False}
    found = readable(touched)
    assert [p.text for p in found] == ["docs/x.md", "src/**"]
    assert found[1].why.startswith("9 parts of `src` were touched")


def test_the_workspace_is_opened_only_where_it_may_be() -> None:
    """Many top folders become `**` for what is read, and stay a long list for what is written."""
    touched = {f"p{n}/a/": False for n in range(9)}
    assert [p.text for p in readable(touched)] == ["**"]
    assert len(readable(touched, root=False)) == 9


def test_a_searched_folder_covers_what_is_in_it() -> None:
    """What lies in a folder that was searched needs no pattern of its own."""
    assert [p.text for p in readable({"src/": True, "src/a/": False, "src/x/": True})] == ["src"]
    assert [p.text for p in readable({"": True, "src/a/": False})] == ["**"]
