"""What is counted of finished work has one name for each outcome: alerts compute rates from it."""

from __future__ import annotations

from typing import Any

import pytest

from onceward import Job, Onceward, Permanent, Retry, Tx
from onceward.testing import until
from onceward.work import Worker, WorkerOptions


@pytest.mark.parametrize("way", ["by itself", "outside", "in a transaction"])
async def test_a_success_is_counted_as_such_and_failures_as_again_or_dead(bench: Any, way: str) -> None:
    app = Onceward("counted")

    def act(what: str) -> None:
        if what == "again":
            raise Retry("not yet", after=3600)
        if what == "dead":
            raise Permanent("never")

    if way == "in a transaction":

        @app.job(name="act")
        async def in_tx(tx: Tx, *, what: str) -> None:
            act(what)

        job: Any = in_tx
    else:

        @app.job(name="act", outside=way == "outside")
        async def by_itself(job: Job, *, what: str) -> None:
            act(what)

        job = by_itself
    here = await bench(app)
    for what in ("success", "again", "dead"):
        await here.engine.enqueue(job, what=what)
    seen: list[str] = []
    worker = Worker(
        here.db,
        app.registry,
        here.engine.waker,
        options=WorkerOptions(concurrency=2, poll_s=0.05, grace_s=1.0, settle_s=0.0),
        open_tx=here.engine.open_tx,
        count=lambda _queue, _task, outcome, _seconds: seen.append(outcome),
    )
    await worker.start()
    here.workers.append(worker)

    async def all_three() -> bool:
        return len(seen) == 3

    await until(all_three)
    assert sorted(seen) == ["again", "dead", "success"]
