"""A rehearsal holds locks for a bounded time, gives way to the workers, and finds work by any of its names."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from asyncpg import InterfaceError

from onceward import Engine, Onceward, Tx
from onceward.db import Database, Transaction
from onceward.rehearsal import RehearsalSettings, find_ids
from onceward.rehearsal.pace import Busy, Pace
from onceward.rehearsal.preview import Previews
from onceward.rehearsal.recorded_work import load
from onceward.rehearsal.rehearser import Rehearser
from onceward.rehearsal.row_changes import RowRecorder
from onceward.rehearsal.series import series
from onceward.rehearsal.transactions import RehearsalTx
from tests.rehearsal import kiosk, kiosk_app

OPEN = "select count(*) from pg_stat_activity where application_name = 'onceward-rehearsal' and state like 'idle in%'"


def settings(**given: Any) -> RehearsalSettings:
    return RehearsalSettings(**given)


async def test_the_search_for_written_rows_ends_with_the_time_of_the_rehearsal(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, organization = await kiosk.prepare(db, kiosk.make_app())
    event = await kiosk.arrive(db, organization)

    async def endless(self: RowRecorder, _seen: object) -> None:
        await self._inside.execute("select pg_sleep(30)")

    monkeypatch.setattr(RowRecorder, "written", endless)
    async with Rehearser(engine, settings(rehearsal_timeout_s=1.5)) as rehearser, db.acquire() as conn:
        began = time.monotonic()
        shown = await rehearser.rehearse((await load(conn, engine.registry, [event]))[0])
        assert time.monotonic() - began < 10
        assert await db.fetchval(OPEN) == 0
    assert shown.failure is not None
    assert shown.failure.message == "what the handler wrote was not found within 1.5 s of its start"


async def test_the_server_ends_a_rehearsal_whose_process_does_not_answer(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onceward.rehearsal.rehearser.GRACE_MS", 100)
    app = Onceward("stuck")

    @app.job(name="stuck")
    async def stuck(tx: Tx) -> None:
        await tx.execute("update kiosk.seats set taken_by = 'me' where seat = 'A1'")
        time.sleep(1.5)  # noqa: ASYNC251 the event loop stands still, so no timeout of ours can end it

    await kiosk.prepare(db, kiosk.make_app())
    engine = Engine(db, app.registry)
    first = await db.fetchval("select onceward.enqueue('stuck')")
    async with Rehearser(engine, settings(rehearsal_timeout_s=0.3)) as rehearser, db.acquire() as conn:
        [recorded] = await load(conn, engine.registry, [first])
        locks = "select seat from kiosk.seats where seat = 'A1' for update"
        other = asyncio.create_task(asyncio.to_thread(_locked_after_s, db.url, locks))
        shown = await rehearser.rehearse(recorded)
        assert shown.state == "failed"
        assert await other < 1.1
        assert (await rehearser.rehearse(recorded)).id == first  # on a new connection


async def test_a_rehearsal_that_is_cancelled_while_its_handler_ends_is_cancelled(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has released the savepoint by then, so the rollback to it fails: the series went on for ever."""
    engine, organization = await kiosk.prepare(db, kiosk.make_app())
    event = await kiosk.arrive(db, organization)
    release = RehearsalTx.commit

    async def cut(self: RehearsalTx, last: str = "", *, then: Transaction | None = None) -> None:
        await release(self, last, then=then)
        self._opened = True  # the answer of the server has not been read
        this = asyncio.current_task()
        assert this is not None
        this.cancel()
        await asyncio.sleep(1)

    async with Rehearser(engine, settings()) as rehearser, db.acquire() as conn:
        [recorded] = await load(conn, engine.registry, [event])
        with monkeypatch.context() as patch:
            patch.setattr(RehearsalTx, "commit", cut)
            rehearsed = asyncio.create_task(rehearser.rehearse(recorded))
            await asyncio.wait({rehearsed}, timeout=10)
            assert rehearsed.cancelled()
        assert (await rehearser.rehearse(recorded)).state == "caused"


async def test_a_rollback_that_fails_does_not_take_the_place_of_a_cancellation(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, organization = await kiosk.prepare(db, kiosk.make_app())
    event = await kiosk.arrive(db, organization)
    began = asyncio.Event()

    async def waits(*_: object) -> None:
        began.set()
        await asyncio.sleep(30)

    async def fails(_: Rehearser) -> None:
        raise InterfaceError("another operation is in progress")

    monkeypatch.setattr(Rehearser, "_handle", waits)
    monkeypatch.setattr(Rehearser, "_roll_back", fails)
    async with Rehearser(engine, settings()) as rehearser, db.acquire() as conn:
        [recorded] = await load(conn, engine.registry, [event])
        rehearsed = asyncio.create_task(rehearser.rehearse(recorded))
        await began.wait()
        rehearsed.cancel()
        await asyncio.wait({rehearsed}, timeout=10)
        assert rehearsed.cancelled()


def _locked_after_s(url: str, statement: str) -> float:
    """Return after how many seconds another session got the lock, counted from when the handler had it."""

    async def lock() -> float:
        db = await Database.open(url, min_size=1, max_size=1)
        try:
            await asyncio.sleep(0.2)
            began = time.monotonic()
            await db.fetch(statement)
            return time.monotonic() - began
        finally:
            await db.close()

    return asyncio.run(lock())


async def test_a_series_keeps_its_rate_and_stops_when_workers_fall_behind(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, organization = await kiosk.prepare(db, kiosk.make_app())
    ids = [
        await kiosk.arrive(db, organization, {"number": n}, event_id=n, type=kiosk.VISIT) for n in ("V-1", "V-2", "V-3")
    ]
    slow = settings(rehearsal_per_minute=200)
    async with Rehearser(engine, slow) as rehearser:
        began = time.monotonic()
        assert [one.id async for _, one in series(engine, rehearser, slow, ids)] == ids
        assert time.monotonic() - began >= 0.6 - 0.05

        monkeypatch.setattr("onceward.rehearsal.pace.LOOK_EVERY_S", 0.0)
        done: list[int] = []
        with pytest.raises(Busy, match="due work has waited"):
            async for _, one in series(engine, rehearser, settings(rehearsal_busy_s=5), ids):
                done.append(one.id)
                await db.execute("update onceward.work set sort_at = now() - interval '1 hour'")
        assert done == ids[:1]


async def test_a_preview_keeps_the_same_pace(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onceward.rehearsal.preview.LONGEST_S", 0.1)
    engine, organization = await kiosk.prepare(db, kiosk.make_app())
    event = await kiosk.arrive(db, organization)
    previews = Previews(kiosk_app.app, engine, {}, settings(rehearsal_busy_s=5))
    await previews._turn.acquire()
    others = asyncio.create_task(previews.of([event]))
    with pytest.raises(Busy, match="others look at previews"):
        await others
    previews._turn.release()

    pace = previews._pace
    await pace.begin()
    await db.execute("update onceward.work set sort_at = now() - interval '1 hour'")
    pace._next_look = 0.0
    with pytest.raises(Busy, match="due work has waited"):
        await pace.turn()
    assert isinstance(pace, Pace)


async def test_work_is_found_by_a_key_that_it_holds_while_it_waits(db: Database) -> None:
    app = kiosk.make_app()
    engine, organization = await kiosk.prepare(db, app)
    pack = kiosk.job_of(app, "pack")
    async with engine.transaction(organization=organization) as tx:
        waits = await tx.enqueue(pack.unique("pack:K-7"), number="K-7")
        kept = await tx.enqueue(pack.unique("kept", forever=True), number="K-8")
        dead = await tx.enqueue(pack.unique("dead"), number="K-9")
    await db.execute("update onceward.work set dead_reason = 'permanent', dead_at = now() where id = $1", dead.id)
    event = await kiosk.arrive(db, organization, event_id="8811")

    async def found(name: str) -> list[int]:
        return await find_ids(db, engine.registry, name)

    assert [await found(name) for name in ("pack:K-7", "pack:pack:K-7", "kept", "dead", "8811", "nothing")] == [
        *([waits.id], [waits.id], [kept.id], [dead.id], [event]),
        [],
    ]
    assert await found(str(waits.id)) == [waits.id]
