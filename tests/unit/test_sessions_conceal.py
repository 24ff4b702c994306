"""Tests of `broker.sessions.conceal`: what a session keeps out of its receipt, and where."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from broker.errors import InputError, StoreError, UnverifiableError
from broker.receipt.commitment import digest, plain_digest, shown
from broker.sessions.conceal import FIELDS, Concealer, Disclosures, concealed_names


def test_names_are_read_in_any_spelling_a_person_uses() -> None:
    """Commas, repeats, blanks and `all` mean what they look like; anything else is told."""
    assert concealed_names([]) == ()
    assert concealed_names(["notes, intent", "intent"]) == ("intent", "notes")
    assert concealed_names(["intent,all"]) == tuple(sorted(FIELDS))
    for wrong in ("ticket", "", "intents", "all,workspace"[4:]):
        with pytest.raises(InputError, match="cannot be concealed"):
            concealed_names([wrong])


def test_only_what_was_asked_for_is_taken(tmp_path: Path) -> None:
    """A kind that nobody asked to conceal stays as it is and leaves no file."""
    concealer = Concealer(["notes"], tmp_path, os.urandom)
    assert not concealer.conceals("decision")
    assert concealer.take("decision", {"args": "x"}) == {"args": "x"}
    assert not (tmp_path / "disclosures").exists()


def test_what_is_taken_is_kept(tmp_path: Path) -> None:
    """The values come back from the file by the digests in the line."""
    concealer = Concealer(["arguments"], tmp_path, os.urandom)
    data = {"tool": "read", "args": "ab", "subjects": [{"path": "a"}]}
    clear = concealer.take("decision", data)
    assert set(clear) == {"tool", "_sd"}
    values, missing = shown(clear, Disclosures(tmp_path).read())
    assert (values, missing) == ({"args": "ab", "subjects": [{"path": "a"}]}, 0)
    assert (tmp_path / "disclosures").stat().st_mode & 0o777 == 0o600


def test_the_ticket_is_bound_to_the_salted_line(tmp_path: Path) -> None:
    """A concealed intent's digest is that of its disclosure; the plain one is nowhere."""
    typed = {"line": "fix it", "digest": "00" * 32}
    assert Concealer([], tmp_path, os.urandom).intent(typed) == typed
    clear = Concealer(["intent"], tmp_path, os.urandom).intent(typed)
    assert clear["digest"] == plain_digest(clear["_sd"][0])  # type: ignore[index]  # a list
    assert clear["digest"] != typed["digest"]


def test_erased_values_are_gone_and_the_others_are_not(tmp_path: Path) -> None:
    """Erasing takes the named values out of the file and counts them."""
    kept = Disclosures(tmp_path)
    assert kept.erase(["A" * 43]) == 0
    kept.add(["one", "two"])
    assert kept.erase([digest("one"), "A" * 43]) == 1
    assert kept.read() == {digest("two"): "two"}
    assert b"one" not in (tmp_path / "disclosures").read_bytes()
    kept.add(["three"])
    assert set(kept.read().values()) == {"two", "three"}


def test_a_value_that_a_crash_cut_off_takes_none_along(tmp_path: Path) -> None:
    """The next value starts on a line of its own, and the fragment is nobody's."""
    kept = Disclosures(tmp_path)
    kept.add(["one"])
    with (tmp_path / "disclosures").open("ab") as stream:
        stream.write(b"cut-o")
    assert set(kept.read().values()) == {"one"}
    kept.add(["two"])
    assert set(kept.read().values()) == {"one", "cut-o", "two"}


def test_writers_and_erasers_at_once_lose_nothing(tmp_path: Path) -> None:
    """Values added while others are erased are all there in the end."""
    numbers = count()

    def add(_: int) -> None:
        Disclosures(tmp_path).add([f"v{next(numbers)}"])

    def erase(number: int) -> None:
        Disclosures(tmp_path).erase([digest(f"gone{number}")])

    Disclosures(tmp_path).add([f"gone{i}" for i in range(20)])
    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(add if i % 2 else erase, i // 2) for i in range(40)]
    for each in done:
        each.result()
    assert set(Disclosures(tmp_path).read().values()) == {f"v{i}" for i in range(20)}


def test_an_unsafe_file_is_not_used(tmp_path: Path) -> None:
    """A link or a file that others can read is refused, for writing and for reading."""
    kept = Disclosures(tmp_path)
    kept.add(["one"])
    os.chmod(kept.path, 0o644)
    with pytest.raises(UnverifiableError):
        kept.read()
    with pytest.raises(StoreError):
        kept.add(["two"])
    kept.path.unlink()
    kept.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnverifiableError):
        kept.read()
    with pytest.raises(StoreError):
        kept.add(["two"])
    assert not (tmp_path / "elsewhere").exists()
