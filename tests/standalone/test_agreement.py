"""
Two verifiers that share no code give one answer: on every attack, and on whatever chance makes.

The one-file verifier was written from the page, the other with the writer. Where they differ,
one of them is wrong, or the page is not clear.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.attacks.test_attacks_v1 import CASES, key_file, put_key
from tests.receiptkit import AT, KEY, Scene
from tests.standalone.hostile import READING, notes, signed_edits, whole_edits
from tests.standalone.kit import Answer, Files, first, second
from tests.standalone.vectors import checkpoint


def files(scene: Scene, sid: str, *, head: bool = True) -> Files:
    """Return what both verifiers are given of a session."""
    return Files(sid, scene.path(sid), scene.head(sid) if head else None, key=key_file(scene))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three fresh sessions, and their key."""
    made = Scene.at(tmp_path)
    put_key(made)
    return made


def agree(ours: Answer, theirs: Answer) -> bool:
    """
    Whether two answers are one, as far as the page says which it must be.

    It leaves three things open: which fault of a line that is spelled wrong in several ways is
    named, and of a note, and whether the root of a seal is checked that something follows.
    """
    if (ours.code, ours.word, theirs.word) == (1, "after_seal", "seal"):
        return theirs.more[0] == int(str(ours.more[0])) - 1
    words = {ours.word, theirs.word}
    open_ = words <= READING or words == {"checkpoint_sig", "checkpoint_format"}
    return (ours.code, ours.more) == (theirs.code, theirs.more) and (len(words) == 1 or open_)


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


@given(edit=signed_edits(), head=st.booleans(), key=st.booleans())
def test_both_read_what_a_holder_of_the_key_signs_alike(
    edit: Callable[[list[bytes], str], bytes], head: bool, key: bool, still: Scene
) -> None:
    """R4, R5: behind a tag that is right, or unchecked, both accept and refuse the same lines."""
    before = still.content("s2")
    still.path("s2").write_bytes(edit(still.lines("s2"), "s2"))
    asked = files(still, "s2", head=head)
    asked = asked if key else replace(asked, key=None, level="chain")
    try:
        ours, theirs = first(asked), second(asked)
        assert agree(ours, theirs), (ours, theirs)
    finally:
        still.path("s2").write_bytes(before)


@example(place=177, byte=0, cut=False)  # the quote after the tag of slot 0
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


# ── levels ──


@pytest.fixture(scope="module")
def promising(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Sessions of each promise, sealed and open, short and of more than 64 lines."""
    made = Scene.at(tmp_path_factory.mktemp("promising"))
    put_key(made)
    for level in PROMISES:
        for name, lines in (("short", 3), ("long", 70)):
            for seal in SEALS:
                sid = f"{level}-{name}-{seal or 'open'}"
                opening = {} if level == "none" else {"level": level}
                receipt = made.receipts.create(sid, opening=opening, at=AT)
                for i in range(lines):
                    receipt.append("note", {"i": i}, at=AT, durable=False)
                if seal:
                    receipt.seal(seal, at=AT)
                receipt.close()
    return made


PROMISES = ("none", "mac", "signed", "anchored", "most")
SEALS = ("complete", "interrupted", "")


@given(
    sid=st.builds(
        "{}-{}-{}".format,
        st.sampled_from(PROMISES),
        st.sampled_from(["short", "long"]),
        st.sampled_from(["complete", "interrupted", "open"]),
    ),
    left=st.integers(1, 80),
    rest=st.sampled_from([b"", b"", b"{}"]),
    signed=notes(),
    head=st.booleans(),
    key=st.booleans(),
    level=st.sampled_from([None, "chain", "mac", "signed"]),
    require_seal=st.booleans(),
)
def test_both_reach_one_level(
    sid: str,
    left: int,
    rest: bytes,
    signed: Callable[[list[bytes], str], bytes | None],
    head: bool,
    key: bool,
    level: Literal["chain", "mac", "signed"] | None,
    require_seal: bool,
    promising: Scene,
) -> None:
    """R8, R9.3 to R9.8: with any part given or not, and any of it changed, both say the same."""
    before, lines = promising.content(sid), promising.lines(sid)
    beside = promising.head(sid).with_suffix(".note")
    asked = replace(files(promising, sid, head=head), level=level, require_seal=require_seal)
    asked = asked if key else replace(asked, key=None)
    if (content := signed(lines, sid)) is not None:
        beside.write_bytes(content)
        asked = replace(asked, checkpoint=beside)
    promising.path(sid).write_bytes(b"".join(line + b"\n" for line in lines[:left]) + rest)
    try:
        ours, theirs = first(asked), second(asked)
        # This verifier reads no anchors: it cannot tell where the other misses one.
        unread = theirs == Answer(2) and ours.word == "no_anchor"
        assert unread or agree(ours, theirs), (ours, theirs)
    finally:
        promising.path(sid).write_bytes(before)


@pytest.mark.parametrize("rest", [b"", b"{}"])
def test_an_emptied_receipt_is_a_break_to_both(rest: bytes, scene: Scene) -> None:
    """R9.3, T05: without the secret, a file that a checkpoint covers lines of is cut or torn."""
    note = scene.head("s1").with_suffix(".note")
    note.write_bytes(checkpoint(scene.lines("s1"), sid="s1"))
    scene.path("s1").write_bytes(rest)
    asked = Files("s1", scene.path("s1"), checkpoint=note)
    wanted = Answer(1, "torn" if rest else "truncated", (0, 0))
    assert first(asked) == second(asked) == wanted
    bare = replace(asked, checkpoint=None, level="chain")
    assert first(bare) == second(bare) == (wanted if rest else Answer(2))


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (b'"}\n', b"\n", "format"),
        (b'{"at":', b'{"At":', "schema"),
        (b'"sid":"s1"', b'"sid":"s2"', "sid"),
        (b'"kid":"', b'"kid":"X', "schema"),
        (b"claude", b"\xff", "encoding"),
        (b'"data":{', b'"data":[', "json"),
    ],
)
def test_a_first_line_that_is_none_is_told_alike(
    old: bytes, new: bytes, wanted: str, scene: Scene
) -> None:
    """R9.2: without the secret, line 0 is checked in the order of every line."""
    note = scene.head("s1").with_suffix(".note")
    note.write_bytes(checkpoint(scene.lines("s1"), sid="s1"))
    scene.path("s1").write_bytes(scene.content("s1").replace(old, new, 1))
    asked = Files("s1", scene.path("s1"), checkpoint=note)
    assert first(asked) == second(asked) == Answer(1, wanted, (0, 0))
