"""Secrets in the words of a command."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.redaction.hiding import Hider
from broker.redaction.trees import hide_tree
from broker.redaction.words import WORD_KEYS, hide_words, words_under

WORDS = st.lists(
    st.sampled_from(["--password", "-u", "--user=x", "--token=k-1", "", "a b", "PASSWORD=k-2"])
    | st.text(max_size=5)
)


@given(WORDS)
def test_words_stay_as_many_as_they_were(words: list[str]) -> None:
    """A command can be told from what is left of it, and hiding it again changes nothing."""
    kept = hide_words(words, Hider())
    assert len(kept) == len(words)
    assert hide_words(kept, Hider()) == kept


@pytest.mark.parametrize("key", sorted(WORD_KEYS))
def test_the_words_of_a_tool_s_arguments(key: str) -> None:
    """A tool that is called with the words of a command keeps no secret that follows an option."""
    value = {
        "n": [{key: ["curl", "--password", "my dog", "-X", '{"token":"k-1"}', "PASSWORD=k-2"]}]
    }
    fresh, paths = hide_tree(value, Hider())
    assert "my dog" not in str(fresh)
    assert "k-1" not in str(fresh)
    assert "k-2" not in str(fresh)
    assert paths[0] == f"n[0].{key}[2]"
    assert len(fresh["n"][0][key]) == 6  # type: ignore[index, call-overload]  # as it was


def test_what_are_no_words() -> None:
    """Under another name, or with something else among them, texts are searched one by one."""
    for value in ({"names": ["--password", "dog"]}, {"argv": ["--password", 1, "dog"]}):
        assert hide_tree(value, Hider()) == (value, [])
    same = {"argv": ["ls", "-l"]}
    assert hide_tree(same, Hider())[0] is same
    assert words_under("argv", []) is None
