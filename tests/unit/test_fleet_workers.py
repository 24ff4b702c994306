"""Who verifies: every job that goes in comes out once, whoever does the work."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from broker.errors import InputError
from broker.fleet.verifying import Job, Judged
from broker.fleet.workers import AHEAD, here, in_processes, on_ray
from tests.fleetkit import Fleet


def _job(n: int) -> Job:
    return Job("memory://x", "0" * 16, f"s{n}", (), None)


def answer(job: Job) -> Judged:
    """Say which session it was, and by which process."""
    return Judged(job.installation, job.sid, "SEALED", size_bytes=os.getpid())


def die(job: Job) -> Judged:
    """End the worker at one of the sessions."""
    if job.sid == "s3":
        os._exit(1)
    return answer(job)


def test_every_job_comes_out_once() -> None:
    """More jobs than are handed out at a time, in two processes and in this one."""
    jobs = [_job(n) for n in range(3 * AHEAD * 2)]
    wanted = sorted(job.sid for job in jobs)
    assert sorted(each.sid for each in here(iter(jobs), answer)) == wanted
    found = list(in_processes(2, iter(jobs), answer))
    assert sorted(each.sid for each in found) == wanted
    assert os.getpid() not in {each.size_bytes for each in found}


def test_a_worker_that_dies_is_no_success() -> None:
    """Each session whose worker is gone could not be verified, and none is forgotten."""
    jobs = [_job(n) for n in range(12)]
    found = list(in_processes(1, iter(jobs), die))
    assert sorted(each.sid for each in found) == sorted(job.sid for job in jobs)
    lost = [each for each in found if each.state == "UNVERIFIABLE"]
    assert "s3" in {each.sid for each in lost}
    assert {each.code for each in lost} == {"unverifiable.worker"}


def test_sessions_are_verified_in_other_processes(tmp_path: Path) -> None:
    """What crosses to a worker and back is enough to verify by, and to tell."""
    from broker.fleet.verifying import installations, jobs_of

    fleet = Fleet(tmp_path)
    for _ in range(3):
        fleet.session()
    fleet.push()
    (name,) = installations(fleet.target)
    _, jobs = jobs_of(fleet.target, name, [fleet.key()])
    assert [each.state for each in in_processes(2, jobs)] == ["SEALED"] * 3


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Ray is not installed the person reads what to install."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"capability-broker\[ray\]"):
        next(on_ray("auto", [_job(1)]))
