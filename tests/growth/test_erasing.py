"""To erase one of many people costs what is stored about that person."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from onceward.db import Database, migrate
from onceward.runtime import FEATURES
from onceward.trust import create_organization
from onceward.trust.erase import TURN_ROWS, Eraser, Search, erase
from onceward.trust.erasure_scans import begin, continue_abandoned, take_turn
from onceward.trust.person import Person
from onceward_apps import all as bundled
from tests.growth.filled import SMALL, fill
from tests.growth.test_growth import MOST_PAGES, ROWS

ALL = FEATURES.plus(bundled.app.features())
ERASERS: list[Eraser] = [eraser for erasers in ALL.load("erasers") for eraser in erasers]
READ = """
select sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0) + coalesce(toast_blks_read + toast_blks_hit, 0)
           + coalesce(tidx_blks_read + tidx_blks_hit, 0))::bigint
  from pg_statio_user_tables
"""
SCANNED = """
select relname as name, seq_tup_read as rows from pg_stat_user_tables
 where seq_tup_read > 0 and schemaname in ('onceward', 'learning', 'ticketing', 'engagement', 'coursegen', 'clinic')
"""


@pytest.fixture
async def one(database_url: str) -> AsyncIterator[Database]:
    """A database with one connection, so that its statistics are those of the test."""
    db = await Database.open(database_url, min_size=1, max_size=1)
    yield db
    await db.close()


async def pages(db: Database) -> int:
    """Return how many pages all statements have read so far."""
    await db.fetchval("select pg_stat_force_next_flush()")
    await db.fetchval("select pg_stat_clear_snapshot()")
    return await db.fetchval(READ)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "rows", [ROWS // 8, pytest.param(50 * ROWS, marks=pytest.mark.slow)], ids=["short", "thorough"]
)
async def test_one_of_many_people_is_erased_by_what_indexes_lead_to(one: Database, rows: int) -> None:
    """The thorough run has a million people, with twenty times as many rows about them."""
    async with one.acquire() as conn:
        await migrate(conn, ALL.migrations)
    async with one.transaction(role="engine") as tx:
        large = (await create_organization(tx, "large", actor="test")).organization_id
        small = (await create_organization(tx, "small", actor="test")).organization_id
    await fill(one, rows, large=large, small=small, apps=True)
    # Every sixth person has an appointment and an order that have ended.
    for organization, number in ((large, rows // 12 * 6 + 3), (small, SMALL // 12 * 6 + 3)):
        assert await erased(one, organization, number)


async def erased(db: Database, organization: UUID, number: int) -> bool:
    """Erase a person and look at what each transaction reads."""
    names = [f"person-{number}@example.org", f"person-{number}"]
    search = Search(Person(names), organization, tuple(ERASERS))
    before, scanned = await pages(db), {row["name"]: row["rows"] for row in await db.fetch(SCANNED)}
    scan = await begin(db, search, actor="test", reason="a letter")
    linked = await pages(db) - before
    assert linked < MOST_PAGES
    rows = {row["name"]: row["rows"] - scanned.get(row["name"], 0) for row in await db.fetch(SCANNED)}
    assert {name: count for name, count in rows.items() if count > 1_000} == {}, "read from beginning to end"
    found = search.report().rows
    assert {"recipients", "messages", "payments", "patients", "students", "ticket orders", "tickets"} <= {
        name for name, count in found.items() if count
    }
    finished, most, all_pages = False, 0, 0
    while not finished:
        before = await pages(db)
        search, finished = await take_turn(db, scan, ERASERS)
        read = await pages(db) - before
        most, all_pages = max(most, read), all_pages + read
    print(f"{organization}: {linked} pages by links, {all_pages} in turns of at most {most}, {search.examined} rows")
    assert most < 20 * TURN_ROWS
    assert sum((await erase(db, names, ERASERS, organization=organization, actor="test")).rows.values()) == 0
    return True


async def test_a_node_continues_an_erasure_whose_process_was_killed(db: Database) -> None:
    """It knows the person until the end, and nobody afterwards."""
    await db.execute(
        "insert into onceward.jobs (id, task, args) select n, 't', jsonb_build_object('to', 'person-' || n % 2 || '@example.org')"
        " from generate_series(1, $1) n",
        3 * TURN_ROWS,
    )
    erasers = [eraser for erasers in FEATURES.load("erasers") for eraser in erasers]
    search = Search(Person("person-1@example.org"), None, tuple(erasers))
    scan = await begin(db, search, actor="test", reason=None)
    finished = False
    while not finished and search.found.get("jobs") is None:
        search, finished = await take_turn(db, scan, erasers)
    assert not finished
    await continue_abandoned(db, erasers)
    assert await db.fetchval("select finished_at is null from onceward.erasure_scans"), "its process may still live"
    await db.execute("update onceward.erasure_scans set turned_at = turned_at - interval '11 seconds'")
    await continue_abandoned(db, [each for each in erasers if each.name != "jobs"])
    assert await db.fetchval("select finished_at is null from onceward.erasure_scans"), "this node lacks an eraser"
    await continue_abandoned(db, erasers)
    row = await db.fetchrow(
        "select people, also_known_as, finished_at, found -> 'jobs' ->> 'rows' as jobs from onceward.erasure_scans"
    )
    assert row is not None
    assert (row["people"], row["also_known_as"], row["jobs"]) == (None, None, str(3 * TURN_ROWS // 2))
    assert row["finished_at"] is not None
    assert await db.fetchval("select count(*) from onceward.jobs where args ->> 'to' = 'person-1@example.org'") == 0
    assert await db.fetchval("select count(*) from onceward.jobs where args ->> 'to' = 'person-0@example.org'") > 0
