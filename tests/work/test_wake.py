"""Wake-ups reach other processes: at once, together when many come, and also those of a process that ends."""

from __future__ import annotations

import asyncio

from onceward import Onceward
from onceward.db import Database
from onceward.testing import until
from onceward.work.wake import CHANNEL, Waker
from tests.engines import Bench

app = Onceward("t")


@app.job(queue="parcels")
async def pack() -> None: ...


class Ear:
    """Another process: a connection that listens."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def listen(self, db: Database) -> None:
        self._conn = await db.connect(application_name="ear")
        await self._conn.add_listener(CHANNEL, lambda *args: self.heard.append(args[3]))

    async def close(self) -> None:
        await self._conn.close()


async def test_a_process_that_enqueues_and_ends_leaves_no_job_to_the_poll(db: Database) -> None:
    ear = Ear()
    await ear.listen(db)
    for number in range(30):
        bench = Bench(db, app)
        await bench.start()
        await bench.engine.enqueue(pack)
        await bench.engine.stop()
        await until(lambda expected=number + 1: len(ear.heard) >= expected, timeout_s=5)
    assert set(ear.heard) == {"parcels"}
    await ear.close()


async def test_many_wakeups_are_sent_together(db: Database) -> None:
    ear = Ear()
    await ear.listen(db)
    waker = Waker(db)
    await waker.start()
    for _ in range(1000):
        waker.wake("parcels")
    await waker.stop()
    await until(lambda: bool(ear.heard))
    assert len(ear.heard) <= 2
    await ear.close()


async def test_a_wakeup_that_could_not_be_sent_is_sent_later(db: Database) -> None:
    ear = Ear()
    await ear.listen(db)
    waker = Waker(db)
    await waker.start()
    execute = db.execute

    async def broken(*_: object) -> str:
        raise ConnectionResetError("the connection was closed")

    db.execute = broken  # pyright: ignore[reportAttributeAccessIssue]
    waker.wake("parcels")
    await asyncio.sleep(0.05)
    assert ear.heard == []
    db.execute = execute
    await until(lambda: ear.heard == ["parcels"], timeout_s=5)
    await waker.stop()
    await ear.close()


async def test_a_process_ignores_its_own_notifications_and_hears_those_of_others(db: Database) -> None:
    ear = Ear()
    await ear.listen(db)
    calls: list[str] = []
    waker = Waker(db)
    await waker.start()
    waker.listen(calls.append, works_on=["parcels"])
    await until(lambda: calls == ["parcels"])  # the connection listens
    waker.wake("parcels")
    await until(lambda: ear.heard == ["parcels"])
    await db.execute("select pg_notify($1, 'letters')", CHANNEL)
    await until(lambda: "letters" in calls)
    assert calls == ["parcels", "parcels", "letters"], "once when it listens, once in the process itself"
    await db.execute("select pg_notify($1, 'parcels')", CHANNEL)
    await until(lambda: calls.count("parcels") == 3)
    await waker.stop()
    await ear.close()
