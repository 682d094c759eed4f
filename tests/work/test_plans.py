"""Guards on the hot statements: which index, how many pages. Time is noise here; pages are not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onceward.db import Connection, Database
from onceward.work.round import BEGINNING
from onceward.work.statements import CLAIM, ENQUEUE, FINISH, PRUNE_JOBS, RELEASE, RELEASE_UNKNOWN
from onceward.work.upkeep import old_jobs

CLAIMED = 200
ALL = ([0], [BEGINNING], [1000])
"""A claim that takes work without an organization and then the oldest of the others."""


async def fill(db: Database, *, finished: int, waiting: int) -> None:
    await db.execute(
        f"""
        insert into onceward.jobs (id, task, args) select n, 'noop', '{{}}' from generate_series(1, {finished}) n;
        insert into onceward.attempts (work_id, number, kind, task, outcome)
        select n, 1, 'job', 'noop', 'success' from generate_series(1, {finished}) n;
        select setval('onceward.ids', {finished + 1});
        with new as materialized (select nextval('onceward.ids') as id from generate_series(1, {waiting})),
        bodies as (insert into onceward.jobs (id, task, args) select id, 'noop', '{{}}' from new)
        insert into onceward.work (id, kind, task, queue, sort_at)
        select id, 'job', 'noop', 'default', now() - interval '1 minute' from new;
        """
    )
    await db.execute("vacuum analyze onceward.work")
    await db.execute("vacuum analyze onceward.jobs")
    await db.execute("vacuum analyze onceward.attempts")


async def explain(conn: Connection, query: str, *args: Any) -> dict[str, Any]:
    [plan] = await conn.fetchval(f"explain (analyze, buffers, wal, format json) {query}", *args)
    return plan["Plan"]


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(found for child in plan.get("Plans", []) for found in nodes(child))]


def scans_of(plan: dict[str, Any], table: str) -> list[str]:
    return [
        node["Node Type"] for node in nodes(plan) if node.get("Relation Name") == table and "Scan" in node["Node Type"]
    ]


def pages(plan: dict[str, Any]) -> int:
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.mark.parametrize("finished", [0, 30_000])
async def test_a_claim_reads_what_it_takes_and_no_history(db: Database, finished: int) -> None:
    await fill(db, finished=finished, waiting=5_000)
    async with db.acquire() as conn:
        beginning = await conn.fetchval("select '2000-01-01'::timestamptz")
        plan = await explain(conn, CLAIM, "default", beginning, ["noop"], CLAIMED, 7, 1, True, *ALL)
        assert "work_ready" in {node.get("Index Name") for node in nodes(plan)}
        assert "Seq Scan" not in scans_of(plan, "work")
        assert "Seq Scan" not in scans_of(plan, "jobs")
        assert pages(plan) / CLAIMED < 25, f"{pages(plan)} pages for {CLAIMED} rows"


async def test_a_claim_of_events_reads_only_the_list_of_paused_sources(db: Database) -> None:
    await db.execute(
        """
        insert into onceward.work (id, kind, task, queue, sort_at, source)
        select n, 'event', 'p/t', 'events', now() - interval '1 minute', ('00000000-0000-4000-8000-00000000000' || n % 5)::uuid
          from generate_series(1, 5000) n
        """
    )
    await db.execute("insert into onceward.paused_sources values ('00000000-0000-4000-8000-000000000001')")
    await db.execute("vacuum analyze onceward.work")
    async with db.acquire() as conn:
        beginning = await conn.fetchval("select '2000-01-01'::timestamptz")
        plan = await explain(conn, CLAIM, "events", beginning, ["p/t"], CLAIMED, 7, 1, True, *ALL)
        held = await conn.fetchval(
            "select array_agg(distinct id % 5 order by id % 5) from onceward.work where lease = 7"
        )
    assert held == [0, 2, 3, 4]
    read = {node["Relation Name"] for node in nodes(plan) if "Relation Name" in node and node["Actual Loops"]}
    assert read == {"work", "claims", "jobs", "queues", "paused_sources"}
    assert "work_ready" in {node.get("Index Name") for node in nodes(plan)}
    assert pages(plan) / CLAIMED < 25, f"{pages(plan)} pages for {CLAIMED} rows"


async def test_acks_and_releases_find_their_rows_by_key_also_when_statistics_are_old(db: Database) -> None:
    await db.execute("analyze onceward.work")  # as of an empty table
    await db.execute(
        """
        insert into onceward.work (id, kind, task, queue, sort_at, lease)
        select n, 'job', 'noop', 'default', now(), 7 from generate_series(1, 20000) n
        """
    )
    ids = list(range(1, CLAIMED + 1))
    async with db.acquire() as conn:
        for query, args in ((RELEASE, (ids, [8])), (FINISH, (ids, [7], 1, None))):
            plan = await explain(conn, query, *args)
            assert "Seq Scan" not in scans_of(plan, "work"), query
            assert pages(plan) / CLAIMED < 30


async def test_a_rescue_finds_a_workers_rows_through_its_claims(db: Database) -> None:
    await fill(db, finished=0, waiting=20_000)
    await db.execute(
        "insert into onceward.claims (lease, worker, ids, claimed_at) values (7, 1, '{5, 6}', now() - '1 h'::interval)"
    )
    await db.execute("analyze onceward.claims")
    async with db.acquire() as conn:
        plan = await explain(conn, RELEASE_UNKNOWN, 1, [99])
        assert "Seq Scan" not in scans_of(plan, "work")


async def test_pruning_goes_on_from_its_mark_and_does_not_scan(db: Database) -> None:
    await fill(db, finished=30_000, waiting=0)
    keep = timedelta(0)
    async with db.acquire() as conn:
        listing = await explain(conn, old_jobs(db, keep=keep).listing, keep, 29_000, 1000)
        assert "Seq Scan" not in scans_of(listing, "jobs")
        assert pages(listing) < 100
        plan = await explain(conn, PRUNE_JOBS, keep, list(range(29_001, 30_001)))
        deleted = [node for node in nodes(plan) if node["Node Type"] == "ModifyTable"]
        assert {node["Relation Name"] for node in deleted} == {"jobs", "attempts", "checkpoints"}
        assert await conn.fetchval("select count(*) from onceward.jobs") == 29_000
        assert "Seq Scan" not in scans_of(plan, "jobs")
        assert "Seq Scan" not in scans_of(plan, "attempts")
        assert pages(plan) < 3000


async def test_a_plain_job_costs_two_inserts_a_claim_and_an_ack(db: Database) -> None:
    """WAL records per job, a stand-in for what the disk must do: more only if somebody adds an index or a statement."""
    count = 1000
    async with db.acquire() as conn:
        arguments = ['{"body": "' + "x" * 138 + '"}'] * count
        settings = [["noop"], ["default"], [None], [None], [None], [0.0], [0.0], *[[None]] * 9]
        plans = [await explain(conn, ENQUEUE, arguments, [1] * count, 0, None, *settings)]
        await conn.execute("analyze onceward.work")
        beginning = await conn.fetchval("select '2000-01-01'::timestamptz")
        plans.append(await explain(conn, CLAIM, "default", beginning, ["noop"], count, 7, 1, True, *ALL))
        ids = [row["id"] for row in await conn.fetch("select id from onceward.work where lease = 7")]
        plans.append(await explain(conn, FINISH, ids, [7], 1, None))
    assert len(ids) == count
    records = [
        sum(node.get("WAL Records", 0) for node in nodes(plan) if node["Node Type"] == "ModifyTable") for plan in plans
    ]
    # A body with its key; work with its key and its place in the queue. A new version of the row. Its end, and the attempt.
    assert sum(records) / count < 12, records
