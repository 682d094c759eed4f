"""Enqueues through SQL wake idle workers and leave busy ones alone. Polls are an hour apart, so only wake-ups find work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from onceward import Onceward, enqueue_sql
from onceward.db import Connection, Database
from onceward.testing import until
from onceward.work import listen_session
from onceward.work.idle_flags import FLAG, IdleFlags, IdleState
from onceward.work.idleness import Idleness
from onceward.work.listen_session import ListenSession
from onceward.work.wake import CHANNEL
from tests.engines import Bench

HOUR_S = 3600.0
FLAGGED = f"""
select exists (select from pg_locks
                where locktype = 'advisory' and classid = {FLAG} and mode = 'ExclusiveLock' and granted
                  and objid = (hashtext('notes')::bigint & 4294967295)::oid
                  and database = (select oid from pg_database where datname = current_database()))
"""
ENQUEUE = "select onceward.enqueue('note', $1, queue => 'notes')"

Start = Callable[[Onceward], Awaitable[Bench]]


class Notes:
    """An app with one job, and the numbers with which it ran."""

    def __init__(self) -> None:
        self.app = Onceward("t")
        self.seen: list[int] = []

        @self.app.job(queue="notes")
        async def note(*, n: int) -> None:
            self.seen.append(n)

        self.note = note


def flags_on(conn: Connection | None) -> IdleFlags:
    session = ListenSession()
    session.conn = conn
    return IdleFlags(CHANNEL, session)


async def flagged(db: Database) -> bool:
    return await db.fetchval(FLAGGED)


async def listens(db: Database) -> bool:
    return await db.fetchval(
        "select exists (select from pg_stat_activity where datname = current_database() and query ilike 'listen%')"
    )


async def test_an_enqueue_through_sql_wakes_an_idle_worker(bench: Start, db: Database) -> None:
    notes = Notes()
    here = await bench(notes.app)
    await here.start_worker(poll_s=HOUR_S)
    await until(lambda: flagged(db))
    for n in range(10):
        await db.execute(ENQUEUE, {"n": n})
        await until(lambda n=n: n in notes.seen)
    text, parameters = enqueue_sql(notes.note.call(n=10))
    driver = await asyncpg.connect(db.url)
    await driver.fetchrow(text, *parameters)
    await driver.close()
    await until(lambda: 10 in notes.seen)
    await db.execute("select onceward.enqueue('note', '{\"n\": 11}', queue => 'notes', lane => 'a', ordered => true)")
    await until(lambda: 11 in notes.seen)


async def test_an_enqueue_that_no_idle_worker_waits_for_sends_no_notify(db: Database) -> None:
    heard: list[str] = []
    ear = await db.connect(application_name="ear")
    await ear.add_listener(CHANNEL, lambda *args: heard.append(args[3]))
    holder = await db.connect(application_name="holder")
    flags = flags_on(holder)
    await db.execute(ENQUEUE, {"n": 1})
    assert await flags.set("notes") is IdleState.SET
    await db.execute(ENQUEUE, {"n": 2})
    await db.execute("select onceward.enqueue('note', '{}', queue => 'notes', run_at => now() + interval '1 hour')")
    await db.execute("select onceward.enqueue('note', '{}', queue => 'others')")
    await flags.clear("notes")
    await db.execute(ENQUEUE, {"n": 3})
    await db.execute("select pg_notify($1, 'end')", CHANNEL)
    await until(lambda: "end" in heard)
    assert heard == ["notes", "notes", "end"]  # job 2, and the flag that the holder cleared
    await holder.close()
    await ear.close()


async def test_a_transaction_that_will_be_prepared_can_do_without_the_notify(db: Database) -> None:
    """PREPARE TRANSACTION refuses a transaction that executed NOTIFY."""
    heard: list[str] = []
    holder = await db.connect(application_name="holder")
    await holder.add_listener(CHANNEL, lambda *args: heard.append(args[3]))
    flags = flags_on(holder)
    assert await flags.set("notes") is IdleState.SET
    async with db.acquire() as conn, conn.transaction():
        await conn.execute("set local onceward.notify = off")
        await conn.execute(ENQUEUE, {"n": 1})
    await db.execute("select pg_notify($1, 'end')", CHANNEL)
    await until(lambda: "end" in heard)
    assert heard == ["end"]
    await holder.close()


async def test_only_one_worker_holds_the_flag_and_the_others_know_it(db: Database) -> None:
    assert await flags_on(None).set("notes") is IdleState.NO_SESSION
    connections = [await db.connect(), await db.connect()]
    first, second = map(flags_on, connections)
    async with db.acquire() as conn, conn.transaction():
        await conn.execute(ENQUEUE, {"n": 1})
        assert await first.set("notes") is IdleState.OPEN_TRANSACTIONS
    assert await first.set("notes") is IdleState.SET
    assert await second.set("notes") is IdleState.OTHER_WORKER
    await first.clear("notes")
    assert await second.set("notes") is IdleState.SET
    for each in connections:
        await each.close()


async def test_work_of_a_transaction_that_was_open_when_the_worker_became_idle_is_found(
    bench: Start, db: Database
) -> None:
    notes = Notes()
    here = await bench(notes.app)
    async with db.acquire() as conn:
        async with conn.transaction(isolation="repeatable_read"):
            await conn.execute(ENQUEUE, {"n": 1})  # no worker is idle yet, so this sends no NOTIFY
            await here.start_worker(poll_s=HOUR_S)
            await asyncio.sleep(0.1)
            assert not await flagged(db)
    await until(lambda: notes.seen == [1])
    await until(lambda: flagged(db))


@pytest.mark.parametrize("looks_again", [True, False], ids=["with the second look", "twin without it"])
async def test_the_second_look_finds_what_was_committed_before_the_flag(
    bench: Start, db: Database, monkeypatch: pytest.MonkeyPatch, looks_again: bool
) -> None:
    """The race: a commit between the claim that found nothing and the flag. The twin shows that it loses the wake-up."""
    notes = Notes()
    set_flag, pause_s = IdleFlags.set, Idleness.pause_s

    async def enqueue_then_set(self: IdleFlags, queue: str) -> IdleState:
        if queue == "notes" and not await db.fetchval("select exists (select from onceward.jobs)"):
            await db.execute(ENQUEUE, {"n": 1})
        return await set_flag(self, queue)

    async def sleep_at_once(self: Idleness) -> float:
        return await pause_s(self) or HOUR_S

    here = await bench(notes.app)
    here.engine.waker.listen(lambda _queue: None)
    await until(lambda: listens(db))  # before the worker starts, so that its first look is the one in the race
    monkeypatch.setattr(IdleFlags, "set", enqueue_then_set)
    if not looks_again:
        monkeypatch.setattr(Idleness, "pause_s", sleep_at_once)
    await here.start_worker(poll_s=HOUR_S)
    await until(lambda: flagged(db))
    if looks_again:
        await until(lambda: notes.seen == [1])
    else:
        await asyncio.sleep(0.3)
        assert notes.seen == []
        assert await db.fetchval("select count(*) from onceward.work") == 1


async def test_a_busy_worker_clears_its_flag_and_an_idle_one_takes_it(bench: Start, db: Database) -> None:
    busy, idle = Notes(), Notes()
    first, second = await bench(busy.app), await bench(idle.app)
    await first.start_worker(poll_s=HOUR_S)
    await until(lambda: first.engine.waker.idle_flags.has("notes"))
    await second.start_worker(poll_s=HOUR_S)
    await first.engine.waker.idle_flags.clear("notes")
    await until(lambda: flagged(db))
    await first.stop_workers()
    first.workers.clear()
    await until(lambda: second.engine.waker.idle_flags.has("notes"))
    await db.execute(ENQUEUE, {"n": 1})
    await until(lambda: idle.seen == [1])
    assert busy.seen == []


async def test_a_long_run_of_claims_clears_the_flag_and_a_pause_sets_it_again(db: Database) -> None:
    conn = await db.connect()
    flags = flags_on(conn)
    idleness = Idleness(flags, "notes", poll_s=HOUR_S)
    assert await idleness.pause_s() == 0.0  # look once more
    assert await idleness.pause_s() == HOUR_S
    for _ in range(25):
        await idleness.found_work(500, full=True)
    assert not await flagged(db)
    looks = [await idleness.pause_s() for _ in range(6)]
    assert looks[:4] == [0.004] * 4
    assert looks[4:] == [0.0, HOUR_S]
    await conn.close()


async def test_single_jobs_one_after_the_other_leave_the_flag(db: Database) -> None:
    conn = await db.connect()
    flags = flags_on(conn)
    idleness = Idleness(flags, "notes", poll_s=HOUR_S)
    assert await idleness.pause_s() == 0.0
    for _ in range(100):
        await idleness.found_work(1, full=False)
    assert flags.has("notes")
    for _ in range(100):
        await idleness.found_work(2, full=False)
    assert not flags.has("notes")
    await conn.close()


async def test_a_worker_whose_listening_connection_was_lost_listens_and_flags_again(bench: Start, db: Database) -> None:
    notes = Notes()
    here = await bench(notes.app)
    await here.start_worker(poll_s=HOUR_S)
    await until(lambda: flagged(db))
    ended = await db.fetch(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where datname = current_database() and application_name = 'onceward listen'"
    )
    assert len(ended) == 1
    await db.execute(ENQUEUE, {"n": 1})  # while nobody listens
    await until(lambda: notes.seen == [1])
    await until(lambda: flagged(db))
    await db.execute(ENQUEUE, {"n": 2})
    await until(lambda: notes.seen == [1, 2])


async def test_a_listening_session_that_does_not_answer_stops_no_queue(
    bench: Start, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen_session, "TURN_S", 0.1)
    monkeypatch.setattr(listen_session, "ANSWER_S", 0.5)
    notes = Notes()
    here = await bench(notes.app)
    await here.start_worker(poll_s=0.05)
    await until(lambda: flagged(db))
    session = here.engine.waker._session
    listening = session.conn
    assert listening is not None

    async def hang() -> None:
        async with session.use() as conn:
            assert conn is listening
            await conn.execute("select pg_sleep(60)")

    hanging = asyncio.create_task(hang())
    for n in range(1, 31):  # a run of claims, after which the worker clears its flag and becomes idle again
        await here.engine.enqueue_many(notes.note.call(n=n) for _ in range(2))
    await until(lambda: len(notes.seen) == 60)
    with pytest.raises(TimeoutError):
        await hanging
    assert listening.is_closed()
    await until(lambda: session.is_open)
    await db.execute(ENQUEUE, {"n": 99})
    await until(lambda: notes.seen[-1] == 99)
