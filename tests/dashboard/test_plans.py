"""List pages stay fast however long the history is: they walk the primary key, and never count it."""

from __future__ import annotations

import re
import time
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from onceward.db import Database
from onceward.inbox.pages.events import EVENTS
from onceward.messages.pages.messages import MESSAGES
from onceward.outbox.pages.deliveries import DELIVERIES
from onceward.web.dashboard.pagination import PAGE
from onceward.windows import walk
from onceward.work.pages import figures, overview
from onceward.work.pages.jobs import JOBS
from onceward.workflows.pages.workflows import WORKFLOWS

KINDS = {kind.slug: kind for kind in (EVENTS, JOBS, MESSAGES, DELIVERIES, WORKFLOWS)}

HISTORY = """
with made as (
    insert into onceward.jobs (id, organization_id, task, args, created_at)
    select nextval('onceward.ids'), case when n % 5000 = 0 then $2::uuid else $1::uuid end,
           case when n % 1000 = 0 then 'rare' else 'common' || n % 7 end, '{}', now() - make_interval(secs => ($3 - n) / 50.0)
      from generate_series(1, $3::int) n
    returning id, organization_id, task, created_at
)
insert into onceward.attempts (work_id, organization_id, number, kind, task, outcome, started_at, finished_at)
select id, organization_id, 1, 'job', task, case when id % 500 = 0 then 'failed' else 'success' end, created_at,
       created_at + interval '5 milliseconds' from made
"""


async def fill(db: Database, rows: int) -> tuple[UUID, UUID]:
    large, small = uuid4(), uuid4()
    for start in range(0, rows, 500_000):
        await db.execute(HISTORY, large, small, min(500_000, rows - start))
    await db.execute("vacuum analyze onceward.jobs, onceward.attempts")
    return large, small


def scans(node: Any) -> list[str]:
    """The tables that a plan reads from end to end."""
    found = [str(node["Relation Name"])] if node.get("Node Type") in ("Seq Scan", "Parallel Seq Scan") else []
    for child in node.get("Plans", ()):
        found += scans(child)
    return found


async def plan(db: Database, statement: str, *args: Any) -> Any:
    """As it is planned for these values."""
    numbered = iter(args)
    literal = [f"'{each}'" if isinstance(each, str | UUID) else str(each) for each in numbered]
    text = re.sub(r"\$(\d+)", lambda found: literal[int(found[1]) - 1], statement)
    rows = await db.fetchval(f"explain (format json) {text}")
    return rows[0]["Plan"]


async def test_no_list_reads_a_history_from_end_to_end(db: Database) -> None:
    await fill(db, 60_000)
    newest = await db.fetchval("select max(id) from onceward.jobs") + 1
    for kind in KINDS.values():
        if await db.fetchval("select to_regclass($1)", kind.table) is None:
            continue
        for state in ("", *kind.states):
            found = await plan(db, kind.listing(state=state), newest, newest - 4000, PAGE + 1)
            assert not {"jobs", "attempts", "webhook_events"} & set(scans(found)), (kind.slug, state)


async def test_no_figure_of_the_overview_reads_a_history_from_end_to_end(db: Database) -> None:
    await fill(db, 200_000)
    await db.execute("select brin_summarize_new_values('onceward.attempts_finished')")
    now = await db.fetchval("select clock_timestamp()::text")
    for statement, args in (
        (figures.OUTCOMES, (now, now)),
        (figures.RATE, ()),
        (figures.ARRIVED_JOBS, (now, now, 199_000)),
        (figures.LATENCY, (60.0,)),
        (overview.SLOWEST, ()),
    ):
        assert not {"jobs", "attempts", "webhook_events"} & set(scans(await plan(db, statement, *args))), statement


async def test_pages_have_no_gap_under_any_filter(db: Database) -> None:
    large, small = await fill(db, 30_000)
    kind = KINDS["jobs"]
    for where, args, condition in (
        (" and r.task = $4::text", ("rare",), "task = 'rare'"),
        (" and r.organization_id = $4::uuid", (small,), f"organization_id = '{small}'"),
        (
            " and r.organization_id = $4::uuid and r.task = 'rare'",
            (large,),
            f"organization_id = '{large}' and task = 'rare'",
        ),
    ):
        expected = [
            row["id"] for row in await db.fetch(f"select id from onceward.jobs where {condition} order by id desc")
        ]
        got: list[int] = []
        before: int | None = None
        while True:
            statement, windows = kind.listing(where=where), kind.windows(None)
            page = await walk(db, statement, *args, windows=windows, before=before, want=7, most=1_500)
            got += [row["id"] for row in page.rows]
            before = page.next
            if before is None:
                break
        assert got == expected


async def test_a_moment_is_found_among_ids_without_an_index_on_time(db: Database) -> None:
    await fill(db, 20_000)
    for id in (100, 9_999, 19_500):
        row = await db.fetchrow("select id, created_at from onceward.jobs where id >= $1 order by id limit 1", id)
        assert row is not None
        assert abs(await db.fetchval("select onceward.id_at($1)", row["created_at"]) - row["id"]) <= 1
    assert await db.fetchval("select onceward.id_at('infinity')") > 20_000
    assert await db.fetchval("select onceward.id_at('-infinity')") <= 1


async def test_a_moment_is_found_when_events_go_on_after_the_last_job(db: Database) -> None:
    await fill(db, 1_000)
    assert await db.fetchval("select onceward.event_at('-infinity')") == 1_001, "no event: behind all ids"
    await db.execute(
        """
        insert into onceward.webhook_events (event_id, provider, type, payload, received_at)
        select 'e' || n, 'none', 'paid', '{}', now() + make_interval(secs => n) from generate_series(1, 1000) n
        """
    )
    row = await db.fetchrow("select seq, received_at from onceward.webhook_events order by seq offset 500 limit 1")
    assert row is not None
    assert await db.fetchval("select onceward.id_at($1)", row["received_at"]) == row["seq"]
    assert await db.fetchval("select onceward.event_at($1)", row["received_at"]) == row["seq"]
    assert await db.fetchval("select onceward.event_at('-infinity')") <= 1_001
    job = await db.fetchrow("select id, created_at from onceward.jobs order by id offset 500 limit 1")
    assert job is not None
    assert await db.fetchval("select onceward.id_at($1)", job["created_at"]) == job["id"], "the earlier of both tables"
    assert await db.fetchval("select onceward.id_at('infinity')") == await db.fetchval(
        "select max(seq) + 1 from onceward.webhook_events"
    )


async def test_only_the_owners_of_tables_search_in_them_by_time(db: Database) -> None:
    async with db.transaction(role="app") as tx:
        assert await tx.fetchval("select onceward.id_at(now())") >= 0
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with db.transaction(role="app") as tx:
            await tx.fetchval("select onceward.first_id_since('onceward.api_keys', 'id', 'created_at', now())")


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_a_list_page_takes_less_than_50_ms_with_ten_million_rows(db: Database) -> None:
    large, _ = await fill(db, 10_000_000)
    kind = KINDS["jobs"]
    for state, where, args in (
        ("", "", ()),
        ("dead_letter", "", ()),
        ("failed", "", ()),
        ("", " and r.task = $4::text", ("rare",)),
        ("", " and r.task = $4::text", ("never",)),
        ("", " and r.organization_id = $4::uuid", (large,)),
    ):
        times: list[float] = []
        for _ in range(5):
            began = time.perf_counter()
            await walk(
                db, kind.listing(state=state, where=where), *args, windows=kind.windows(None, state=state), want=PAGE
            )
            times.append(time.perf_counter() - began)
        assert sorted(times)[2] < 0.05, (state, where, times)
