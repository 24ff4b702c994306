"""
Two verifiers that share no code give one answer: on every attack, and on whatever chance makes.

The one-file verifier was written from the page, the other with the writer. Where they differ,
one of them is wrong, or the page is not clear.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.attacks.test_attacks_v1 import CASES, key_file, put_key
from tests.receiptkit import KEY, Scene
from tests.standalone.hostile import signed_edits, whole_edits
from tests.standalone.kit import Files, first, second


def files(scene: Scene, sid: str, *, head: bool = True) -> Files:
    """Return what both verifiers are given of a session."""
    return Files(sid, scene.path(sid), scene.head(sid) if head else None, key=key_file(scene))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three fresh sessions, and their key."""
    made = Scene.at(tmp_path)
    put_key(made)
    return made


# ── attacks ──


@pytest.mark.parametrize("name", sorted(n for n, (_, on, _) in CASES.items() if on != "key"))
def test_both_give_one_answer_to_an_attack(name: str, scene: Scene) -> None:
    """R9: state or reason, line and offset are the same after every attack on a session."""
    _, on, act = CASES[name]
    act(scene)
    if scene.key != KEY:
        key_file(scene).write_bytes(scene.key.secret)
    assert second(files(scene, on)) == first(files(scene, on), scene.key)


@pytest.mark.parametrize("name", sorted(n for n, (_, on, _) in CASES.items() if on != "key"))
def test_both_give_one_answer_without_the_head(name: str, scene: Scene) -> None:
    """R9.7: nor do they differ when no head is given."""
    _, on, act = CASES[name]
    act(scene)
    if scene.key != KEY:
        key_file(scene).write_bytes(scene.key.secret)
    bare = files(scene, on, head=False)
    assert second(bare) == first(bare, scene.key)


@pytest.mark.parametrize("name", sorted(n for n, (_, on, _) in CASES.items() if on == "key"))
def test_an_unsafe_key_is_not_believed(name: str, scene: Scene) -> None:
    """R13: a key file that the broker refuses is refused by the one-file verifier too."""
    assert second(files(scene, "s1")).code == 0
    CASES[name][2](scene)
    assert second(files(scene, "s1")).code == 2


# ── chance ──


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Sessions that are set back before each change."""
    made = Scene.at(tmp_path_factory.mktemp("still"))
    put_key(made)
    return made


@given(
    edits=st.lists(whole_edits(), min_size=1, max_size=2),
    sid=st.sampled_from(["s1", "s2"]),
    head=st.booleans(),
)
def test_both_give_one_answer_to_chance(
    edits: list[Callable[[list[bytes]], bytes]], sid: str, head: bool, still: Scene
) -> None:
    """R9: after any change without the key, reason and place are the same, and so is a verdict."""
    before = still.content(sid)
    content = before
    for edit in edits:
        content = edit(content.split(b"\n")[:-1] or [b""])
    still.path(sid).write_bytes(content)
    try:
        assert second(files(still, sid, head=head)) == first(files(still, sid, head=head))
    finally:
        still.path(sid).write_bytes(before)


# Within one line, spelled wrong in more than one way, any of its faults may be named (R9.2).
READING = {"depth", "dupkey", "number", "json", "schema", "canon"}


@given(edit=signed_edits(), head=st.booleans())
def test_both_read_what_a_holder_of_the_key_signs_alike(
    edit: Callable[[list[bytes], str], bytes], head: bool, still: Scene
) -> None:
    """R4, R5: behind a tag that is right, both accept the same lines and refuse the same lines."""
    before = still.content("s2")
    still.path("s2").write_bytes(edit(still.lines("s2"), "s2"))
    try:
        ours, theirs = first(files(still, "s2", head=head)), second(files(still, "s2", head=head))
        assert (theirs.code, theirs.more) == (ours.code, ours.more)
        assert theirs.word == ours.word or {theirs.word, ours.word} <= READING
    finally:
        still.path("s2").write_bytes(before)


@given(place=st.integers(0, 1_023), byte=st.integers(0, 255), cut=st.booleans())
def test_both_read_a_head_alike(place: int, byte: int, cut: bool, still: Scene) -> None:
    """R6: after any change of the head, both give one answer."""
    head = still.head("s2")
    before = head.read_bytes()
    head.write_bytes(before[:place] + (b"" if cut else bytes([byte]) + before[place + 1 :]))
    try:
        assert second(files(still, "s2")) == first(files(still, "s2"))
    finally:
        head.write_bytes(before)
