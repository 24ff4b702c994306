"""A fleet's receipts, verified on a Ray cluster of this machine."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from broker.fleet.verifying import Job, Judged, installations, jobs_of
from broker.fleet.workers import on_ray
from tests.console import Console
from tests.fleetkit import Fleet, objects

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.timeout(300),
]


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """A folder with four sessions of one machine."""
    made = Fleet(tmp_path)
    for _ in range(4):
        made.session()
    made.push()
    return made


def _jobs(fleet: Fleet) -> list[Job]:
    (name,) = installations(fleet.target)
    return jobs_of(fleet.target, name, [fleet.key()])[1]


def die(job: Job) -> Judged:
    """End the worker, each time."""
    os._exit(1)


def test_a_cluster_verifies_a_fleet(fleet: Fleet) -> None:
    """Every session is verified by a worker, and the one that was changed is named."""
    victim = sorted((fleet.folder().parent / "sessions").iterdir())[0]
    objects(victim)[0].unlink()
    found = {each.sid: each.state for each in on_ray("local", _jobs(fleet))}
    assert len(found) == 4
    assert found.pop(victim.name) == "BROKEN"
    assert set(found.values()) == {"SEALED"}


def test_a_worker_that_dies_is_no_success(fleet: Fleet) -> None:
    """Each session whose worker is gone could not be verified."""
    found = list(on_ray("local", _jobs(fleet)[:2], die))
    assert [(each.state, each.code) for each in found] == [
        ("UNVERIFIABLE", "unverifiable.worker")
    ] * 2


def test_by_the_command(fleet: Fleet, capsys: pytest.CaptureFixture[str],
                        monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """`--ray local` starts a cluster here, and the exit code is the fleet's."""
    monkeypatch.setenv("BROKER_HOME", str(fleet.bench.home.state.parent))
    broker = Console(capsys, monkeypatch)
    done = broker("receipt", "--verify", "--all", fleet.url, "--ray", "local")
    assert done.code == 0, done.err
    assert "verified: 4 sessions of 1 installation" in done.out


def test_nobody_at_the_address(fleet: Fleet) -> None:
    """A cluster that does not answer is told, and no session is called verified."""
    from broker.errors import InputError

    with pytest.raises(InputError, match="Ray at `auto`"):
        list(on_ray("auto", _jobs(fleet)))
