"""Questions and answers as files, which nobody without the key can write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.mailbox import ANSWERS, QUESTIONS, Mailbox, Posted
from broker.receipt.keys import Key

KEY = Key(bytes(range(32)), "k")
OTHER = Key(bytes(range(1, 33)), "k")


def box(folder: Path, sid: str = "s", key: Key = KEY) -> Mailbox:
    """Return a session's mailbox."""
    return Mailbox(folder, sid, key)


def test_a_question_is_read_as_it_was_shown(tmp_path: Path) -> None:
    """In the order of their numbers, for this user alone, until it is withdrawn."""
    posted = [Posted(n, "123456", 7, (f"question {n}", "é")) for n in (10, 9)]
    for each in posted:
        box(tmp_path).post(each)
    assert list(box(tmp_path).posted()) == posted[::-1]
    assert (tmp_path / QUESTIONS / "9").stat().st_mode & 0o077 == 0
    box(tmp_path).withdraw(9)
    assert (box(tmp_path).waits(9), box(tmp_path).waits(10)) == (False, True)
    assert [each.number for each in box(tmp_path).posted()] == [10]


def test_an_answer_is_taken_once(tmp_path: Path) -> None:
    """A second look finds nothing."""
    box(tmp_path).answer(3, "yes 123456 why")
    assert list(box(tmp_path).answers()) == ["yes 123456 why"]
    assert list(box(tmp_path).answers()) == []


def test_what_was_not_made_with_the_key_is_nothing(tmp_path: Path) -> None:
    """Another key or session, a changed byte, another name, a question as an answer, a link."""
    box(tmp_path, key=OTHER).answer(1, "yes 111111")
    box(tmp_path, sid="t").answer(2, "yes 111111")
    box(tmp_path).answer(3, "yes 111111")
    third = tmp_path / ANSWERS / "3"
    third.write_bytes(third.read_bytes().replace(b"111111", b"222222"))
    box(tmp_path).answer(4, "yes 111111")
    (tmp_path / ANSWERS / "4").rename(tmp_path / ANSWERS / "5")
    box(tmp_path).post(Posted(6, "111111", 1, ()))
    os.rename(tmp_path / QUESTIONS / "6", tmp_path / ANSWERS / "6")
    box(tmp_path).answer(7, "yes 111111")
    (tmp_path / ANSWERS / "8").symlink_to(tmp_path / ANSWERS / "7")
    (tmp_path / ANSWERS / "9").write_bytes(b"")
    (tmp_path / ANSWERS / "x").write_bytes(b"")
    assert list(box(tmp_path).answers()) == ["yes 111111"]


def test_nothing_is_there_at_first(tmp_path: Path) -> None:
    """No folder is no question, and one that cannot be made is told."""
    assert list(box(tmp_path).posted()) == list(box(tmp_path).answers()) == []
    (tmp_path / QUESTIONS).write_text("in the way")
    with pytest.raises(StoreError):
        box(tmp_path).post(Posted(1, "123456", 7, ()))
