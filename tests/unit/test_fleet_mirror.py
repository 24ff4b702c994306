"""Putting receipts elsewhere: all that is signed, once, and never so that it looks like a loss."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.fleet.mirror import (
    MAX_STRETCH_BYTES,
    Mirror,
    memory_folder,
    stretches,
    unmirrored,
)
from broker.fleet.target import Target
from tests.fleetkit import Fleet, objects
from tests.sessionkit import drop


def test_the_objects_are_the_receipt(tmp_path: Path) -> None:
    """One behind the other, the objects of a session are its receipt, byte for byte."""
    fleet = Fleet(tmp_path)
    session = fleet.session(3, seals=False)
    fleet.push()
    session.decide("Read", {"file_path": "src/a.py"})
    session.seal()
    put = fleet.push()
    assert {each.fault for each in put} == {""}
    parts = objects(fleet.folder(session))
    assert len(parts) > 1
    assert b"".join(map(Path.read_bytes, parts)) == session.receipt_path.read_bytes()
    rows = b"".join(map(Path.read_bytes, objects(fleet.folder())))
    assert rows == (fleet.bench.home.ledger / "receipt.jsonl").read_bytes()
    assert fleet.push() == []
    assert list(Mirror(fleet.bench.home, fleet.target).left()) == []


def test_what_is_left_is_told(tmp_path: Path) -> None:
    """Until a session is mirrored, it is said how many lines are missing there."""
    fleet = Fleet(tmp_path)
    session = fleet.session()
    home = fleet.bench.home
    lines = session.receipt_path.read_bytes().count(b"\n")
    assert unmirrored(home, fleet.url, session.sid, lines) == (
        f"0 of {lines} lines are mirrored at {fleet.url} so far"
    )
    left = {of: (there, all_) for of, there, all_ in Mirror(home, fleet.target).left()}
    assert left[session.sid] == (0, lines)
    assert "ledger" in left
    fleet.push()
    assert unmirrored(home, fleet.url, session.sid, lines) == ""


def test_a_pass_that_was_cut_off_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a put fails, the next pass puts the rest, and nothing is there twice."""
    fleet = Fleet(tmp_path)
    sessions = [fleet.session(2), fleet.session(2)]
    put = Target.put
    for survivors in range(4):
        count = [survivors]

        def failing(self: Target, content: bytes, *parts: str, count: list[int] = count) -> None:
            if not count[0]:
                raise StoreError("the network is gone")
            count[0] -= 1
            put(self, content, *parts)

        monkeypatch.setattr(Target, "put", failing)
        assert any(each.fault == "the network is gone" for each in fleet.push())
        monkeypatch.setattr(Target, "put", put)
        if survivors % 2:  # what was remembered is only for telling
            for path in memory_folder(fleet.bench.home, fleet.url).iterdir():
                path.unlink()
        assert not any(each.fault for each in fleet.push())
        for session in sessions:
            found = b"".join(map(Path.read_bytes, objects(fleet.folder(session))))
            assert found == session.receipt_path.read_bytes()
        sessions.append(fleet.session(2))


def test_the_ledger_waits_for_what_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that could not be put keeps the ledger's rows back, so nothing looks deleted."""
    fleet = Fleet(tmp_path)
    first = fleet.session()
    put = Target.put

    def failing(self: Target, content: bytes, *parts: str) -> None:
        if first.sid in parts:
            raise StoreError("no")
        put(self, content, *parts)

    monkeypatch.setattr(Target, "put", failing)
    found = {each.of: each.fault for each in fleet.push()}
    assert found == {first.sid: "no", "ledger": f"it waits for session `{first.sid}`"}
    monkeypatch.setattr(Target, "put", put)
    assert {each.of: each.fault for each in fleet.push()} == {first.sid: "", "ledger": ""}


def test_one_process_puts_at_a_time(tmp_path: Path) -> None:
    """While another has the lock nothing is put, and it is told."""
    fleet = Fleet(tmp_path)
    fleet.session()
    fleet.push()
    held = os.open(memory_folder(fleet.bench.home, fleet.url), os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(StoreError, match="another process mirrors"):
        fleet.push()
    os.close(held)
    assert fleet.push() == []


def test_only_what_is_signed_is_put(tmp_path: Path) -> None:
    """Lines behind the last checkpoint wait for the next one."""
    fleet = Fleet(tmp_path)
    session = fleet.session(1, seals=False)
    drop(session)
    fleet.push()
    there = b"".join(map(Path.read_bytes, objects(fleet.folder(session))))
    assert session.receipt_path.read_bytes().startswith(there)
    (note,) = objects(fleet.folder(session), ".checkpoint")
    assert there.count(b"\n") == int(note.name.partition(".")[0])


def test_a_long_receipt_is_put_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No object holds much more than its ceiling, and each holds whole lines."""
    monkeypatch.setattr("broker.fleet.mirror.MAX_STRETCH_BYTES", 2_000)
    assert MAX_STRETCH_BYTES > 2_000
    fleet = Fleet(tmp_path)
    session = fleet.session(20)
    fleet.push()
    parts = [path.read_bytes() for path in objects(fleet.folder(session))]
    assert len(parts) > 3
    assert all(part.endswith(b"\n") and len(part) < 4_000 for part in parts)
    assert {each.state for each in fleet.verify()} == {"OPEN", "SEALED"}


def test_another_file_is_not_gone_on_with(tmp_path: Path) -> None:
    """Where the mirror's lines do not end at the end of a line here, nothing is put."""
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\nthree\n")
    path.chmod(0o600)
    found = [(each.name, content) for each, content in stretches(path, 4, 1, 3)]
    assert found == [("0000000001-0000000003.jsonl", b"two\nthree\n")]
    with pytest.raises(StoreError, match="another file"):
        list(stretches(path, 5, 1, 3))
    with pytest.raises(StoreError, match="fewer lines"):
        list(stretches(path, 4, 1, 4))
