"""How a settings file of an agent is read, and what counts as unreadable."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.agents.settingsfile import parse_settings, plain_text, read_settings

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a"\\/*\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(settings=st.dictionaries(st.text(alphabet='a"\\/*', max_size=4), VALUES, max_size=4))
def test_texts_that_look_like_comments_are_kept(settings: dict[str, Any]) -> None:
    """Whatever an object holds, it is read as it stands, with comments around it or without."""
    text = json.dumps(settings)
    assert parse_settings(text) == (settings, None)
    assert parse_settings(f'\ufeff/* "a": {{ */{text}// b') == (settings, None)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a": ' + "1" * 5000 + "}", "[]", "7"])
def test_what_is_not_understood_is_said(text: str) -> None:
    """An agent may understand it: it is no empty file."""
    assert parse_settings(text)[1] is not None


def test_a_missing_file_says_nothing(tmp_path: Path) -> None:
    """Nor does one below a file, where no folder is."""
    (tmp_path / "file").write_text("{}")
    assert read_settings(tmp_path / "none.json") == ({}, None)
    assert read_settings(tmp_path / "file" / "none.json") == ({}, None)
    assert read_settings(tmp_path / "file") == ({}, None)


@pytest.mark.parametrize("kind", ["pipe", "folder", "dangling", "huge"])
def test_what_cannot_be_read_is_said(tmp_path: Path, kind: str) -> None:
    """A pipe is not waited for, and nothing is guessed about what is not a plain file."""
    place = tmp_path / "settings.json"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "huge":
        place.write_bytes(b" " * (4 * 2**20 + 1))
    else:
        place.symlink_to(tmp_path / "nothing")
    assert plain_text(place) is None
    assert read_settings(place) == ({}, "cannot be read")
