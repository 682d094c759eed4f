"""Measure what turns between organizations cost: the processor time per drained job, of the worker and of PostgreSQL.

Processor time hardly depends on what else the machine does, and the difference is a few microseconds.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

import psutil

from benchmarks.measure import UNFAIR_ENVIRONMENT, BenchFailed, Measurement
from benchmarks.work_drain import start_worker
from benchmarks.work_rig import ARGUMENT, Case, Rig, noop
from onceward.work import BoundJob

MANY = 1000


async def drain_organizations(rig: Rig) -> list[Measurement]:
    """Drain jobs of no organization, of one, and of a thousand that were enqueued alternately, each with turns and by
    time.
    """
    count = rig.size.pick(100_000, 40_000, 2000)
    calls: dict[str, Sequence[BoundJob[None]]] = {
        "none": [noop.call(body=ARGUMENT)],
        "one": [noop.for_organization(UUID(int=1)).call(body=ARGUMENT)],
        "1000": [noop.for_organization(UUID(int=n + 1)).call(body=ARGUMENT) for n in range(MANY)],
    }
    fair: dict[str, list[float]] = {name: [] for name in calls}
    by_time: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rig.size.turns(6, 4)):
        for name, each in calls.items():
            # The first of two drains finds the tables and the machine in another state, so both sides begin as often.
            for is_fair in (True, False) if turn % 2 == 0 else (False, True):
                environment = None if is_fair else UNFAIR_ENVIRONMENT
                (fair if is_fair else by_time)[name].append(await _cost(rig, each, count, environment=environment))
    results = [_point(f"drain-organizations-{name}", fair[name], "by time", by_time[name]) for name in calls]
    return [*results, _point("drain-organizations-1000", fair["1000"], "without organizations", fair["none"])]


async def _cost(
    rig: Rig, calls: Sequence[BoundJob[None]], count: int, *, environment: dict[str, str] | None = None
) -> float:
    """Return the processor time per job in microseconds, while one process drains them."""
    await rig.clear()
    await rig.engine.enqueue_many([calls[n % len(calls)] for n in range(count)])
    await rig.db.execute("vacuum analyze onceward.work")
    child = await start_worker(rig.url, environment=environment)
    worker = psutil.Process(child.pid)
    try:
        assert child.stdin is not None
        server = await _server(rig)
        before = _used([worker, *server])
        child.stdin.write(b"go\n")
        await rig.drained()
        return (_used([worker, *await _server(rig)]) - before) / count * 1e6
    finally:
        child.kill()
        await child.wait()


async def _server(rig: Rig) -> list[psutil.Process]:
    """Return the processes of PostgreSQL, which must run on this machine. Those that have ended count for their
    parent.
    """
    pid: int = await rig.db.fetchval("select pg_backend_pid()")
    postmaster = psutil.Process(pid).parent()
    if postmaster is None:
        raise BenchFailed("PostgreSQL must run on this machine, so that its processor time can be read")
    return [postmaster, *postmaster.children()]


def _used(processes: Sequence[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # it ended since the list was made, and counts for its parent
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _point(case: str, ours: list[float], baseline: str, theirs: list[float]) -> Measurement:
    """The least of the turns is the one that other programs disturbed least."""
    value, other = min(ours), min(theirs)
    spread = (max(ours) - value) / statistics.median(ours)
    return Measurement("work", case, value, "us of processor time per job", baseline, other, other / value, spread)


ORGANIZATIONS: dict[str, Case] = {"drain-organizations": drain_organizations}
