"""The receipts of an installation: begin, resume, list, find."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from broker.errors import InputError
from broker.receipt import SessionInfo, verify
from broker.receipt.head import HeadForm
from tests.receiptkit import AT, KEY, Scene, fill, new_receipts, outcome


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three sessions, of which `s1` is sealed."""
    return Scene.at(tmp_path)


def touch(scene: Scene, *sids: str) -> None:
    """Let sessions have changed one after the other."""
    for i, sid in enumerate(sids):
        os.utime(scene.path(sid), (i, i))
        os.utime(scene.head(sid), (i, i))


def test_a_new_session_is_private_and_verifies(tmp_path: Path) -> None:
    """A session begins with an open line, in files and folders for the owner alone."""
    before = os.umask(0)
    try:
        scene = Scene(new_receipts(tmp_path))
        scene.receipts.create("s1", opening={"agent": "codex"}, at=AT).close()
    finally:
        os.umask(before)
    assert scene.verify("s1").lines == 1
    for path in (scene.path("s1"), scene.head("s1")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert scene.path("s1").parent != scene.head("s1").parent


def test_a_session_begins_once(scene: Scene) -> None:
    """A session that is there is not begun again, and stays as it was."""
    before = scene.content("s2")
    assert outcome(lambda: scene.receipts.create("s2", opening={}, at=AT)) == "store.exists"
    assert scene.content("s2") == before


def test_the_format_is_not_for_callers_to_choose(scene: Scene) -> None:
    """The open line's format is ours."""
    with pytest.raises(InputError, match="not for the caller"):
        scene.receipts.create("s4", opening={"format": "receipt/9"}, at=AT)
    assert not scene.path("s4").exists()


def test_a_bad_opening_leaves_nothing_to_verify(scene: Scene) -> None:
    """An opening that cannot be recorded is refused, and no receipt claims anything."""
    with pytest.raises(InputError, match=r"data\.a"):
        scene.receipts.create("s4", opening={"a": 1.5}, at=AT)
    assert scene.outcome("s4") == "unverifiable.nothing"
    assert outcome(lambda: scene.receipts.resume("s4", at=AT)) == "store.never_began"


def test_a_fragment_of_the_first_line_is_nothing(scene: Scene) -> None:
    """A session whose open line was cut off never began, and is not mended into a receipt."""
    content = scene.content("s3").partition(b"\n")[0][:-9]
    scene.path("s4").parent.mkdir()
    scene.path("s4").touch(mode=0o600)
    scene.path("s4").write_bytes(content)
    scene.head("s4").write_bytes(HeadForm("s4", KEY).first())
    assert scene.outcome("s4") == "unverifiable.nothing"
    assert outcome(lambda: scene.receipts.resume("s4", at=AT)) == "store.never_began"
    assert scene.content("s4") == content


def test_resume_goes_on(scene: Scene) -> None:
    """A resumed session goes on where it stopped, as often as it likes, and verifies."""
    for i in range(3):
        with scene.receipts.resume("s2", at=AT) as receipt:
            assert receipt.append("note", {}, at=AT).n == 11 + i
    assert scene.verify("s2").lines == 14


def test_resume_refuses_what_it_must(scene: Scene) -> None:
    """A sealed, an absent and a headless session are not resumed."""
    assert outcome(lambda: scene.receipts.resume("s1", at=AT)) == "store.sealed"
    assert outcome(lambda: scene.receipts.resume("s9", at=AT)) == "unverifiable.missing"
    scene.head("s2").unlink()
    assert outcome(lambda: scene.receipts.resume("s2", at=AT)) == "no_head"
    scene.path("s3").unlink()
    assert outcome(lambda: scene.receipts.resume("s3", at=AT)) == "missing"


def test_resume_refuses_a_tampered_receipt_and_writes_nothing(scene: Scene) -> None:
    """A receipt that does not verify is not written to."""
    lines = scene.lines("s2")
    lines[4] = lines[4].replace(b"main", b"mine")
    scene.put("s2", lines)
    before = (scene.content("s2"), scene.head("s2").read_bytes())
    assert outcome(lambda: scene.receipts.resume("s2", at=AT)) == "mac"
    assert (scene.content("s2"), scene.head("s2").read_bytes()) == before


def test_resume_adopts_lines_beyond_the_head(scene: Scene) -> None:
    """Lines that a crash left beyond the head are acknowledged by the next start."""
    before = scene.head("s2").read_bytes()
    with scene.receipts.resume("s2", at=AT) as receipt:
        receipt.append("note", {}, at=AT)
    scene.head("s2").write_bytes(before)
    assert scene.verify("s2").beyond == 1
    scene.receipts.resume("s2", at=AT).close()
    assert (scene.verify("s2").beyond, scene.verify("s2").lines) == (0, 12)


def test_a_seal_beyond_the_head_is_adopted_too(scene: Scene) -> None:
    """A seal whose head slot a crash prevented counts: the session stays sealed."""
    before = scene.head("s2").read_bytes()
    scene.receipts.resume("s2", at=AT).seal("complete", at=AT)
    scene.head("s2").write_bytes(before)
    assert (scene.verify("s2").state, scene.verify("s2").beyond) == ("SEALED", 1)
    assert outcome(lambda: scene.receipts.resume("s2", at=AT)) == "store.sealed"
    assert scene.verify("s2").beyond == 0


def test_a_failed_resume_keeps_no_file_open(scene: Scene) -> None:
    """Refused resumes leak no descriptor."""
    first = os.open(os.devnull, os.O_RDONLY)
    os.close(first)
    for _ in range(3):
        assert outcome(lambda: scene.receipts.resume("s1", at=AT)) == "store.sealed"
    again = os.open(os.devnull, os.O_RDONLY)
    os.close(again)
    assert again == first


def test_sessions_are_listed_latest_first(scene: Scene) -> None:
    """Every session is listed, by the last change of receipt or head."""
    touch(scene, "s2", "s3", "s1")
    assert [info.sid for info in scene.receipts.sessions()] == ["s1", "s3", "s2"]
    assert scene.receipts.sessions()[0] == SessionInfo("s1", 2 * 10**9, True, True)


def test_what_was_taken_from_a_session_is_listed(scene: Scene) -> None:
    """A session without its receipt or its head is listed, and says which is missing."""
    scene.path("s1").unlink()
    scene.head("s2").unlink()
    (scene.path("s3").parents[1] / "Not-a-session").mkdir()
    (scene.path("s3").parents[1] / "empty").mkdir()
    found = {info.sid: (info.has_receipt, info.has_head) for info in scene.receipts.sessions()}
    assert found == {"s1": (False, True), "s2": (True, False), "s3": (True, True)}


def test_find(scene: Scene) -> None:
    """A session is found by its name, by a beginning that is its own, or as the latest."""
    fill(scene.receipts, "s10", 0).close()
    fill(scene.receipts, "t1", 0).close()
    touch(scene, "s1", "s2", "s10", "t1", "s3")
    find = scene.receipts.find
    assert (find(), find("t"), find("s1"), find("s10")) == ("s3", "t1", "s1", "s10")
    with pytest.raises(InputError, match="more than one session: s1, s10, s2, …"):
        find("s")
    with pytest.raises(InputError, match="no session's name starts"):
        find("x")


def test_find_nothing(tmp_path: Path) -> None:
    """Without any session there is nothing to find, and asking creates no folder."""
    receipts = new_receipts(tmp_path / "home")
    assert receipts.sessions() == []
    with pytest.raises(InputError, match="no session yet"):
        receipts.find()
    assert not (tmp_path / "home").exists()


def test_the_key_is_the_one_given(scene: Scene) -> None:
    """The receipts are signed with the key they were given, and the package verifies them."""
    assert verify(scene.path("s1"), key=KEY, head=scene.head("s1")).state == "SEALED"


@pytest.mark.parametrize("prefix", ["", "zz", "\x1b[2J", "../x", "a" * 1000])
def test_an_odd_prefix_finds_nothing_and_says_what_helps(scene: Scene, prefix: str) -> None:
    """A prefix that fits nothing is told in ASCII and cut, with where the names are listed."""
    with pytest.raises(InputError) as caught:
        scene.receipts.find(prefix)
    said = str(caught.value)
    assert said.isascii() or len(prefix) > 64
    assert "\x1b" not in said
    assert len(said) < 200
