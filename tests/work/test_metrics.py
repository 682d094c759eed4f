"""Finished attempts are counted by their outcome, with the words of the database: alerts compute rates from them."""

from __future__ import annotations

from typing import Any

import pytest

from onceward import Job, Onceward, Permanent, Retry, Snooze, Tx
from onceward.testing import until
from onceward.work import Worker, WorkerOptions


@pytest.mark.parametrize("way", ["by itself", "outside", "in a transaction"])
async def test_attempts_are_counted_with_the_words_of_the_database(bench: Any, way: str) -> None:
    app = Onceward("counted")

    def act(what: str) -> None:
        if what == "retry":
            raise Retry("not yet", after=3600)
        if what == "snoozed":
            raise Snooze(3600)
        if what == "dead_letter":
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
    for what in ("success", "retry", "snoozed", "dead_letter"):
        await here.engine.enqueue(job, what=what)
    seen: list[str] = []
    worker = Worker(
        here.db,
        app.registry,
        here.engine.waker,
        options=WorkerOptions(concurrency=2, poll_s=0.05, grace_s=1.0, settle_s=0.0),
        open_tx=here.engine.open_tx,
        count=lambda _queue, _task, outcome, _seconds, _shared: seen.append(outcome),
    )
    await worker.start()
    here.workers.append(worker)

    async def all_four() -> bool:
        return len(seen) == 4

    await until(all_four)
    assert sorted(seen) == ["dead_letter", "retry", "snoozed", "success"]
