"""The folder of one session's records."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from broker.capabilities.fs import SystemFiles
from broker.capabilities.memory import MemoryFiles
from broker.errors import InputError, StoreError, UnverifiableError
from broker.limits import MAX_INLINE_BYTES
from broker.records.model import ProviderRequest
from broker.records.pieces import kept
from broker.records.store import LINES, RecordStore, blob_place, checked_id, read_records

LARGE = json.dumps({"messages": ["x" * 9_000] * 200 + ["short"], "model": "m"}).encode()


def request(name: str, content: bytes) -> tuple[ProviderRequest, tuple]:  # type: ignore[type-arg]  # pieces
    """Return the record of a request with a body, and its pieces."""
    body, pieces = kept(content)
    return ProviderRequest(name, 1, 0, 0, "main", "h", "m", "a", "d", 1, body), pieces


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """Records and bodies come back as they were, also by a second opening."""
    folder = SystemFiles().below(str(tmp_path / "records"))
    store = RecordStore(folder)
    wanted = {}
    for name, content in (("a", b'{"messages":["x"]}'), ("b", LARGE), ("c", b"\xff\x00")):
        record, pieces = request(name, content)
        store.add(record, pieces)
        wanted[name] = content
    for found in (store.read(), RecordStore(folder).read(), read_records(folder)):
        got = {
            r.id: found.body(r.body)
            for r in found.records
            if isinstance(r, ProviderRequest) and r.body
        }
        assert got == wanted  # fmt: skip


def test_a_large_body_is_in_files_that_nobody_else_reads(tmp_path: Path) -> None:
    """Above the limit texts lie in 0600 files in 0700 folders, under relative paths."""
    assert len(LARGE) > MAX_INLINE_BYTES
    store = RecordStore(SystemFiles().below(str(tmp_path / "records")))
    store.add(*request("a", LARGE))
    lines = [json.loads(row) for row in (tmp_path / "records" / LINES).read_text().splitlines()]
    blobs = [row["blob"] for row in lines if "blob" in row]
    assert len({blob["path"] for blob in blobs}) == 1  # all 200 texts are the same
    for blob in blobs:
        assert not blob["path"].startswith("/")
        assert ".." not in blob["path"]
        place = tmp_path / "records" / blob["path"]
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        assert place.stat().st_size == blob["size_bytes"]
    for folder, _, names in os.walk(tmp_path / "records"):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert all(stat.S_IMODE(os.stat(os.path.join(folder, n)).st_mode) == 0o600 for n in names)
    assert max(len(json.dumps(row)) for row in lines) < MAX_INLINE_BYTES


@pytest.mark.parametrize("name", ["../x", "", "a/b", "a" * 65, ".x", "a b", "-a", "a\n"])
def test_an_unsafe_id_is_refused(name: str) -> None:
    """An id can choose no path, and no line of another's."""
    files = MemoryFiles()
    store = RecordStore(files.below("/r"))
    with pytest.raises(InputError, match="no id of a request"):
        store.add(*request(name, LARGE))
    assert [path for path in files.nodes if path not in ("/", "/r")] == []
    assert checked_id("req-000001") == "req-000001"


def test_an_id_is_used_once() -> None:
    """A second request under the same id is refused, also after the store was opened anew."""
    folder = MemoryFiles().below("/r")
    RecordStore(folder).add(*request("a", b"x"))
    with pytest.raises(InputError, match="used before"):
        RecordStore(folder).add(*request("a", b"y"))


def test_a_path_is_made_of_a_digest_alone() -> None:
    """What is no digest makes no path."""
    with pytest.raises(ValueError, match="not a digest"):
        blob_place("../../etc/passwd")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_every_write_may_fail(number: int) -> None:
    """Whichever write fails, the record is not there, what was there is, and the next one works."""
    counted = MemoryFiles()
    store = RecordStore(counted.below("/r"))
    store.add(*request("a", b"first"))
    before = counted.writes
    store.add(*request("b", LARGE))
    writes = counted.writes - before
    assert writes >= 3  # a folder, a file, the lines
    for nth in range(1, writes + 1):
        files = MemoryFiles()
        store = RecordStore(files.below("/r"))
        store.add(*request("a", b"first"))
        files.fail_write(nth, number)
        with pytest.raises(StoreError, match="cannot be written"):
            store.add(*request("b", LARGE))
        assert [r.id for r in store.read().records if isinstance(r, ProviderRequest)] == ["a"]
        store.add(*request("b", LARGE))
        found = store.read().records[-1]
        assert isinstance(found, ProviderRequest)
        assert found.body is not None
        assert store.read().body(found.body) == LARGE


def test_a_line_that_a_crash_cut_off_is_taken_away() -> None:
    """What was cut off was never sent, and does not stand in the way of the next record."""
    files = MemoryFiles()
    store = RecordStore(files.below("/r"))
    store.add(*request("a", b"x"))
    files.nodes["/r/" + LINES].content += b'{"type":"provider.req'
    assert len(read_records(files.below("/r")).records) == 1
    again = RecordStore(files.below("/r"))
    again.add(*request("b", b"y"))
    assert len(again.read().records) == 2


@pytest.mark.parametrize("row", [b"{}\n", b"nonsense\n", b'{"type":"body.piece.v1"}\n', b"\n"])
def test_a_line_that_is_no_record_is_an_error(row: bytes) -> None:
    """Records that were tampered with are not read over."""
    files = MemoryFiles({"/r/" + LINES: row})
    with pytest.raises(UnverifiableError, match="line 0"):
        read_records(files.below("/r"))
    with pytest.raises(StoreError, match="cannot be opened"):
        RecordStore(files.below("/r"))


def test_a_changed_or_missing_file_is_noticed() -> None:
    """A body whose file is another, or is gone, is not given out."""
    files = MemoryFiles()
    store = RecordStore(files.below("/r"))
    record, pieces = request("a", LARGE)
    store.add(record, pieces)
    assert record.body is not None
    blob = next(path for path in files.nodes if "/blobs/" in path and files.nodes[path].content)
    files.nodes[blob].content = files.nodes[blob].content.replace(b"x", b"y", 1)
    with pytest.raises(UnverifiableError, match="cannot be read"):
        store.read().body(record.body)
    del files.nodes[blob]
    with pytest.raises(UnverifiableError, match="cannot be read"):
        store.read().body(record.body)


def test_threads_write_whole_records() -> None:
    """Records of many threads do not mix, and each is there."""
    store = RecordStore(MemoryFiles().below("/r"))

    def write(first: int) -> None:
        for n in range(20):
            store.add(*request(f"r{first}-{n}", json.dumps({"m": [first, n]}).encode()))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = store.read()
    assert len(found.records) == 80
    for record in found.records:
        assert isinstance(record, ProviderRequest)
        assert record.body is not None
        first, n = json.loads(found.body(record.body))["m"]
        assert record.id == f"r{first}-{n}"


def test_a_record_without_a_body() -> None:
    """Where bodies are not kept the rest of the record is."""
    store = RecordStore(MemoryFiles().below("/r"))
    record = replace(request("a", b"x")[0], body=None)
    store.add(record)
    assert store.read().records == (record,)


def test_storage_is_linear_in_what_is_new() -> None:
    """A conversation that grows beyond what a line holds keeps little more than what is new."""
    files = MemoryFiles()
    store = RecordStore(files.below("/r"))
    rows: list[dict[str, str]] = []
    for n in range(60):
        rows += [{"role": "user", "content": f"{n} " + "words " * size} for size in (40, 9_000)]
        content = json.dumps({"messages": rows, "model": "m"}).encode()
        store.add(*request(f"r{n}", content))
    assert len(content) > 3 * MAX_INLINE_BYTES
    kept_bytes = sum(len(node.content) for node in files.nodes.values())
    assert kept_bytes < 1.1 * len(content)
    found = store.read()
    last = found.records[-1]
    assert isinstance(last, ProviderRequest)
    assert last.body is not None
    assert found.body(last.body) == content
