"""A mirror in S3, as moto serves it in a process of its own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import pytest

from broker.fleet.mirror import installation_name
from broker.fleet.workers import in_processes
from tests.fleetkit import Fleet

SERVER = shutil.which("moto_server")
pytestmark = [
    pytest.mark.skipif(SERVER is None, reason="moto is not installed"),
    pytest.mark.skipif(find_spec("s3fs") is None, reason="s3fs is not installed"),
]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """A server on loopback, which is gone when the tests are over."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [str(SERVER), "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{url}/moto-api/", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield url
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def fleet(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """A machine that mirrors to a bucket of this test's own, by the variables of every AWS tool."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    bucket = f"receipts-{uuid4().hex[:12]}"
    _s3().mkdir(bucket)
    return Fleet(tmp_path, f"s3://{bucket}/agents")


def _s3() -> object:
    import s3fs

    return s3fs.S3FileSystem(skip_instance_cache=True)


def test_a_mirror_in_s3_verifies(fleet: Fleet) -> None:
    """Two machines, sealed and running sessions, in one process and in two."""
    other = fleet.another()
    for bench in (fleet.bench, other):
        fleet.session(bench=bench)
        fleet.session(seals=False, bench=bench)
        assert not any(put.fault for put in fleet.push(bench))
    keys = [fleet.key(), fleet.key(other)]
    found = fleet.verify(*keys)
    assert sorted(each.state for each in found) == ["OPEN"] * 4 + ["SEALED"] * 2
    from broker.fleet.verifying import installations, jobs_of

    jobs = [j for name in installations(fleet.target) for j in jobs_of(fleet.target, name, keys)[1]]
    assert sorted(each.state for each in in_processes(2, jobs)) == [
        "OPEN", "OPEN", "SEALED", "SEALED"
    ]  # fmt: skip


def test_what_is_taken_out_of_a_bucket_is_seen(fleet: Fleet) -> None:
    """An object that is deleted, and one that is overwritten, each break their session."""
    sessions = [fleet.session(), fleet.session(), fleet.session()]
    fleet.push()
    s3, root = _s3(), fleet.url.removeprefix("s3://")
    place = f"{root}/{installation_name(fleet.bench.home)}/sessions"
    gone, changed, _ = sessions
    s3.rm(next(n for n in s3.ls(f"{place}/{gone.sid}") if n.endswith(".jsonl")))
    victim = next(n for n in s3.ls(f"{place}/{changed.sid}") if n.endswith(".jsonl"))
    s3.pipe_file(victim, s3.cat_file(victim).replace(b'"allow"', b'"aliow"'))
    states = {each.sid: each.state for each in fleet.verify()}
    assert [states[session.sid] for session in sessions] == ["BROKEN", "BROKEN", "SEALED"]


def test_an_object_is_never_written_over(fleet: Fleet) -> None:
    """Where another object has the name, the store keeps it, and the pass says so."""
    session = fleet.session()
    root = fleet.url.removeprefix("s3://")
    name = installation_name(fleet.bench.home)
    place = f"{root}/{name}/sessions/{session.sid}/0000000005.checkpoint"
    _s3().pipe_file(place, b"another's")
    faults = {put.of: put.fault for put in fleet.push()}
    # What is there already looks like a checkpoint over lines that are not there.
    assert "checkpoint" in faults[session.sid]
    assert _s3().cat_file(place) == b"another's"


def test_a_bucket_that_is_not_there(fleet: Fleet) -> None:
    """What the store says is told, and nothing is lost here."""
    missing = Fleet(fleet.root / "m", f"s3://no-such-{uuid4().hex[:12]}/x")
    missing.session()
    faults = [put.fault for put in missing.push()]
    assert faults
    assert all(faults)
