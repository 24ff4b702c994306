"""
Who verifies which session: this process, processes of this machine, or a Ray cluster.

Decided here: that work is handed out a little ahead and taken as it is done, so that a fleet of any
size takes little memory, and that a worker which dies is a session that could not be verified. Not
decided here: what a worker does (``broker.fleet.verifying``).

Rule a maintainer keeps: every job that goes in comes out, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from itertools import islice
from multiprocessing import get_context
from typing import Any, Final

from broker.boundary import contained
from broker.errors import InputError
from broker.fleet.verifying import Job, Judged, verify_one

AHEAD: Final = 4  # jobs handed out for each worker

Work = Callable[[Job], Judged]


def here(jobs: Iterable[Job], work: Work = verify_one) -> Iterator[Judged]:
    """Verify one session after another, in this process."""
    return map(work, jobs)


def in_processes(count: int, jobs: Iterable[Job], work: Work = verify_one) -> Iterator[Judged]:
    """
    Verify in so many processes of this machine; yield what becomes of each session as it is done.

    Args:
        count: how many.
        jobs: the sessions.
        work: what is done with each; a function of a module.
    """
    # Forked, a process would have the threads of a store's client without their locks.
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        rest = iter(jobs)
        under_way: dict[Future[Judged], Job] = {}
        while True:
            job = None
            for job in islice(rest, AHEAD * count - len(under_way)):
                try:
                    under_way[pool.submit(work, job)] = job
                except RuntimeError as error:  # the pool broke before
                    yield _lost(job, error)
            if not under_way:
                if job is None:
                    return
                continue  # none of those that were taken could be handed out
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                job = under_way.pop(future)
                yield contained(future.result, partial(_lost, job))


def on_ray(address: str, jobs: Iterable[Job], work: Work = verify_one) -> Iterator[Judged]:
    """
    Verify on a Ray cluster, whose workers have the broker and the store's keys too.

    Args:
        address: as ``ray.init`` takes it: ``auto``, ``HOST:PORT`` or ``ray://HOST:PORT``; ``local``
            starts one on this machine.
        jobs: the sessions.
        work: what is done with each.

    Raises:
        InputError: Ray is not installed, or nobody answers there.
    """
    try:
        import ray  # noqa: PLC0415 - in an extra
    except ImportError as error:
        raise InputError(
            "--ray takes Ray: install it with `pip install 'capability-broker[ray]'`"
        ) from error
    try:
        ray.init(address=address, log_to_driver=False, include_dashboard=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise InputError(f"Ray at `{address}`: {error}") from error
    try:
        yield from _on_cluster(ray, jobs, work)
    finally:
        ray.shutdown()


def _on_cluster(ray: Any, jobs: Iterable[Job], work: Work) -> Iterator[Judged]:
    remote = ray.remote(max_retries=1)(work)
    ahead = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    rest = iter(jobs)
    under_way: dict[Any, Job] = {}
    while True:
        for job in islice(rest, ahead - len(under_way)):
            under_way[remote.remote(job)] = job
        if not under_way:
            return
        done, _ = ray.wait(list(under_way), num_returns=1)
        for each in done:
            job = under_way.pop(each)
            yield contained(partial(ray.get, each), partial(_lost, job))


def _lost(job: Job, error: Exception) -> Judged:
    why = f"its worker failed ({type(error).__name__})"
    return Judged(job.installation, job.sid, "UNVERIFIABLE", code="unverifiable.worker", why=why)
