"""A worker runs every task that it knows, in every queue that it serves, and serves the queues in which such work waits."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from onceward import Onceward, Tx
from onceward.testing import drain, until
from onceward.work import worker as worker_module
from onceward.work.unserved import Unserved, UnservedWalk


class Shop(NamedTuple):
    app: Onceward
    send: Any
    pack: Any


def shop(*, queue: str = "mail") -> Shop:
    app = Onceward("shop")

    @app.job(queue=queue)
    async def send(tx: Tx, *, to: str) -> str:
        return to

    @app.job
    async def pack(*, order: int) -> int:
        return order

    return Shop(app, send, pack)


SUCCESSES = "select count(*) from onceward.attempts where outcome = 'success'"


async def test_jobs_run_in_a_queue_that_no_task_was_declared_for(bench) -> None:
    app, send, pack = shop()
    here = await bench(app)
    worker = await here.start_worker(poll_s=5.0)
    assert worker.identity.queues == ["default", "events", "mail"]
    await here.engine.enqueue(send.in_queue("slow"), to="a")  # a wake-up names the queue
    await here.engine.enqueue(pack.in_queue("mail"), order=1)  # the queue of another task
    await here.db.fetchval("select onceward.enqueue('send', '{\"to\": \"b\"}')")  # the default queue of SQL
    await here.engine.enqueue(send.in_queue("laned").in_order("k"), to="c")
    await until(lambda: here.db.fetchval(SUCCESSES + " having count(*) = 4"))
    assert set(await here.db.fetchval("select queues from onceward.workers")) == {
        *("default", "events", "mail", "slow", "laned")
    }


async def test_a_deploy_that_moves_a_task_to_another_queue_leaves_nothing_behind(bench) -> None:
    app, send, _ = shop(queue="mail")
    old = await bench(app)
    await old.engine.enqueue(send, to="due")
    await old.engine.enqueue(send.in_lane("k", limit=1), to="lane")
    await old.engine.enqueue(send.schedule_in(seconds=0.2), to="later")
    new = await bench(shop(queue="letters").app)
    await new.start_worker()
    await until(lambda: new.db.fetchval(SUCCESSES + " having count(*) = 3"))


async def test_a_worker_with_named_queues_serves_exactly_these(bench) -> None:
    app, send, _ = shop()
    here = await bench(app)
    worker = await here.start_worker(only_queues=["slow"])
    await here.engine.enqueue(send.in_queue("slow"), to="a")
    await here.engine.enqueue(send, to="b")
    await until(lambda: here.db.fetchval(SUCCESSES + " having count(*) = 1"))
    assert worker.identity.queues == ["slow"]
    assert await here.db.fetchval("select queue from onceward.work") == "mail"
    other = await here.start_worker(only_queues=["mail"])
    await until(lambda: here.db.fetchval(SUCCESSES + " having count(*) = 2"))
    assert other.identity.queues == ["mail"]


async def test_a_queue_of_another_app_is_not_served(bench) -> None:
    other = Onceward("other")

    @other.job(queue="theirs")
    async def theirs(*, n: int) -> None: ...

    here, there = await bench(shop().app), await bench(other)
    await there.engine.enqueue(theirs, n=1)
    worker = await here.start_worker()
    assert await worker.serve_waiting_queues() == []
    assert "theirs" not in worker.identity.queues


async def test_more_queues_than_a_worker_serves_are_reported(bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "MOST_QUEUES", 3)
    app, send, _ = shop()
    here = await bench(app)
    worker = await here.start_worker()  # default, events and mail
    await here.engine.enqueue(send.in_queue("slow"), to="a")
    assert await worker.serve_waiting_queues() == []
    await here.db.execute("update onceward.work set sort_at = now() - interval '1 minute'")
    async with here.db.acquire() as conn:
        found = await UnservedWalk().step(conn)
    assert found == [Unserved("slow", "send", "no_queue", 0)]


async def test_drain_runs_every_queue(bench) -> None:
    app, send, _ = shop()
    here = await bench(app)
    await here.engine.enqueue(send.in_queue("slow"), to="a")
    assert await drain(here.engine) == 1
