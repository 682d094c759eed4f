"""Writing what is due: once per due time, by any node; missed and overlapping runs by policy."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from onceward import Onceward, Run
from onceward.schedules import backfill, history, overview, pause, resume, run_now


def app_with(**options) -> Onceward:
    app = Onceward("t")

    @app.cron("0 * * * *", **options)
    async def hourly(run: Run) -> None: ...

    return app


def summary(rows) -> list[tuple[str, str, str]]:
    return [(f"{row['due_at']:%d %H:%M}", row["origin"], row["status"]) for row in rows]


async def test_ten_nodes_write_one_run_for_a_due_time(bench) -> None:
    here = await bench(app_with(), at="2026-05-01 10:30+00")
    assert await here.scheduler.step() == []
    await here.set_clock("2026-05-01 11:00:01+00")
    written = await asyncio.gather(*(here.new_scheduler().step() for _ in range(10)))
    assert len([id for ids in written for id in ids]) == 1
    [run] = await here.runs()
    assert summary([run]) == [("01 11:00", "clock", "pending")]
    assert await here.db.fetchval("select count(*) from onceward.work where id = $1", run["id"]) == 1
    await here.scheduler.step()
    assert len(await here.runs()) == 1


async def test_missed_runs_are_made_up_for_once_by_default(bench) -> None:
    here = await bench(app_with(), at="2026-05-01 10:30+00")
    await here.scheduler.step()
    await here.set_clock("2026-05-01 15:20+00")
    await here.scheduler.step()
    assert summary(await here.runs()) == [("01 15:00", "late", "pending")]


async def test_missed_runs_can_be_skipped(bench) -> None:
    here = await bench(app_with(missed="skip"), at="2026-05-01 10:30+00")
    await here.scheduler.step()
    await here.set_clock("2026-05-01 15:20+00")
    await here.scheduler.step()
    assert await here.runs() == []
    await here.set_clock("2026-05-01 16:00:02+00")
    await here.scheduler.step()
    assert summary(await here.runs()) == [("01 16:00", "clock", "pending")]


async def test_all_missed_runs_within_window_and_number_are_made_up_for(bench) -> None:
    here = await bench(app_with(missed="all", window=timedelta(hours=3), max_runs=2), at="2026-05-01 10:30+00")
    await here.scheduler.step()
    await here.set_clock("2026-05-01 20:00:05+00")
    await here.scheduler.step()
    assert summary(await here.runs()) == [("01 19:00", "late", "pending"), ("01 20:00", "clock", "skipped")]


async def test_overlap_skips_queues_or_allows(bench) -> None:
    app = Onceward("t")

    @app.cron("0 * * * *", overlap="skip")
    async def skips(run: Run) -> None: ...

    @app.cron("0 * * * *", overlap="queue")
    async def queues(run: Run) -> None: ...

    @app.cron("0 * * * *", overlap="allow")
    async def allows(run: Run) -> None: ...

    here = await bench(app, at="2026-05-01 10:30+00")
    for hour in (11, 12):
        await here.set_clock(f"2026-05-01 {hour}:00:01+00")
        await here.scheduler.step()
    rows = await here.db.fetch(
        "select r.schedule, r.status, r.reason, w.lane, w.ordered from onceward.runs r"
        " left join onceward.work w on w.id = r.id where r.due_at = '2026-05-01 12:00+00' order by 1"
    )
    assert [tuple(row) for row in rows] == [
        ("allows", "pending", None, None, None),
        ("queues", "pending", None, "schedule:queues", True),
        ("skips", "skipped", "overlap", None, None),
    ]


async def test_a_paused_schedule_writes_nothing_and_does_not_catch_up(bench) -> None:
    here = await bench(app_with(), at="2026-05-01 10:30+00")
    async with here.db.transaction(role="engine") as tx:
        assert await pause(tx, "hourly", by="tester")
    await here.set_clock("2026-05-01 14:10+00")
    await here.scheduler.step()
    assert await here.runs() == []
    assert (await overview(here.db))[0]["next_at"] is None
    async with here.db.transaction(role="engine") as tx:
        assert await resume(tx, "hourly", by="tester")
        assert not await resume(tx, "hourly", by="tester")
    await here.scheduler.step()
    assert await here.runs() == []
    await here.set_clock("2026-05-01 15:00+00")
    await here.scheduler.step()
    assert summary(await here.runs()) == [("01 15:00", "clock", "pending")]
    actions = await here.db.fetch("select action from onceward.audit_log order by id")
    assert [row["action"] for row in actions] == ["schedule.paused", "schedule.resumed"]


async def test_a_changed_expression_does_not_reach_into_the_past(bench, db) -> None:
    here = await bench(app_with(), at="2026-05-01 10:30+00")
    await here.set_clock("2026-05-01 10:50+00")
    changed = Onceward("t")

    @changed.cron("*/5 * * * *", name="hourly")
    async def often(run: Run) -> None: ...

    here.app = changed
    scheduler = here.new_scheduler()
    await scheduler.register()
    assert await scheduler.step() == []
    await here.set_clock("2026-05-01 10:55+00")
    assert len(await scheduler.step()) == 1


async def test_run_now_and_backfill_write_runs_of_their_own(bench) -> None:
    app = app_with()
    here = await bench(app, at="2026-05-01 10:30+00")
    schedule = app.schedules["hourly"]
    async with here.db.transaction(role="engine") as tx:
        now = await run_now(tx, schedule, by="tester")
        span = {
            "since": datetime(2026, 5, 1, 5, tzinfo=UTC),
            "until": datetime(2026, 5, 1, 8, tzinfo=UTC),
            "by": "tester",
        }
        first = await backfill(tx, schedule, **span)
        again = await backfill(tx, schedule, **span)
    assert (len(first), again) == (3, [])
    rows = await here.runs()
    assert rows[0]["id"] == now
    assert [row["origin"] for row in rows] == ["operator", "backfill", "backfill", "backfill"]
    assert len(await history(here.db, "hourly")) == 4


async def test_jitter_delays_the_job_and_not_the_due_time(bench) -> None:
    here = await bench(app_with(jitter=600), at="2026-05-01 10:30+00")
    await here.set_clock("2026-05-01 11:00+00")
    [id] = await here.scheduler.step()
    sort_at = await here.db.fetchval("select sort_at from onceward.work where id = $1", id)
    due = datetime(2026, 5, 1, 11, tzinfo=UTC)
    assert due < sort_at < due + timedelta(seconds=600)
    assert (await here.runs())[0]["due_at"] == due


async def test_a_schedule_goes_on_after_the_clock_moved_back_and_repeats_no_due_time(bench) -> None:
    here = await bench(app_with(), at="2026-05-01 10:30+00")
    await here.scheduler.step()
    await here.set_clock("2026-05-01 13:00:01+00")  # wrong by two and a half hours
    await here.scheduler.step()
    for moment in ("10:31", "11:00:01", "12:00:01", "13:00:01", "14:00:01"):
        await here.set_clock(f"2026-05-01 {moment}+00")
        await here.scheduler.step()
    assert [f"{row['due_at']:%H:%M}" for row in await here.runs()] == ["13:00", "11:00", "12:00", "14:00"]
