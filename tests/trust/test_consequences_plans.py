"""A trace is found by index, whatever it is asked for by, and walked by index: pages are counted, time is noise."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward.db import Connection, Database
from onceward.runtime import FEATURES
from onceward.work import trace
from tests.trust.conftest import Two
from tests.work.test_plans import explain, nodes, pages

ROWS = 20_000
FILL = """
insert into onceward.webhook_events (seq, id, webhook_id, event_id, organization_id, provider, type, status)
select n, ('00000000-0000-4000-9000-' || lpad(n::text, 12, '0'))::uuid,
       ('00000000-0000-4000-8000-' || lpad((n % 40)::text, 12, '0'))::uuid, 'evt_' || n, $1, 'stripe', 't', 'success'
from generate_series(1, $2::int) n;
insert into onceward.messages (id, organization_id, key, channel, template, version, recipient, reference, caused_by)
select 100000 + n, $1, 'order:' || n, 'email', 't', '1', 'u', 'ref_' || n, n from generate_series(1, $2::int) n;
insert into onceward.published (id, organization_id, message_id, type, key, fingerprint, caused_by)
select 200000 + n, $1, 'msg_' || n, 't', 'pub:' || n, '', n from generate_series(1, $2::int) n;
insert into onceward.deliveries (id, organization_id, endpoint_id, type, status, caused_by)
select 300000 + n, $1, gen_random_uuid(), 't', 'success', 200000 + n from generate_series(1, $2::int) n;
insert into onceward.jobs (id, organization_id, task, args, caused_by)
select 400000 + n, $1, 't', '{}', n from generate_series(1, $2::int) n;
insert into onceward.work (id, organization_id, kind, task, queue, sort_at, unique_key)
select 400000 + n, $1, 'job', 't', 'default', now(), 't:once' || n from generate_series(1, $2::int) n;
insert into onceward.topic_messages (id, xid, organization_id, topic, payload, caused_by)
select 500000 + n, pg_current_xact_id(), $1, 'topic', '{}', n from generate_series(1, $2::int) n;
insert into onceward.notices (id, organization_id, type, severity, title, group_key, caused_by)
select 600000 + n, $1, 't', 'info', 't', 'g', n from generate_series(1, $2::int) n;
insert into onceward.ledger_journals (id, organization_id, key, kind, body, entries, total, caused_by)
select 700000 + n, $1, 'sale:' || n, 'posted', '{}', 1, 1, n from generate_series(1, $2::int) n;
insert into onceward.attempts (work_id, organization_id, number, kind, task, outcome)
select n, $1, 1, 'event', 't', 'success' from generate_series(1, $2::int) n
"""
NAMES = [
    ("00000000-0000-4000-9000-000000000077", 77),
    ("evt_77", 77),
    ("order:77", 100_077),
    ("ref_77", 100_077),
    ("msg_77", 200_077),
    ("pub:77", 200_077),
    ("300077", 300_077),
    ("t:once77", 400_077),
    ("sale:77", 700_077),
]


class Recorder:
    """Passes on what a trace asks, and keeps it."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    async def fetch(self, query: str, *args: Any) -> Any:
        self.asked.append((query, args))
        return await self.conn.fetch(query, *args)

    async def fetchval(self, query: str, *args: Any) -> Any:
        return await self.conn.fetchval(query, *args)


async def _fill(db: Database, organization: UUID) -> None:
    async with db.acquire() as conn, conn.transaction():
        await conn.execute("set local session_replication_role = replica")
        for statement in FILL.split(";\n"):
            arguments = (organization, ROWS)
            await conn.execute(statement, *arguments)
    await db.execute("vacuum analyze")


async def _check(conn: Connection, ref: str, found: int) -> None:
    asked = Recorder(conn)
    assert (await trace(asked, ref, FEATURES.traced)).node.id == found  # type: ignore[arg-type]
    for query, args in asked.asked:
        if "pg_attribute" in query:  # which tables there are
            continue
        plan = await explain(conn, query, *args)
        scanned = [node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"]
        large = {one.table.partition(".")[2] for one in FEATURES.traced} | {"work", "attempts"}
        small = {"audit_log", "capacity_claims", "workflows"}
        assert not (set(scanned) & (large - small)), (ref, scanned)
        assert pages(plan) < 600, (ref, pages(plan))


async def test_everything_is_found_and_walked_by_index_under_any_name_for_anybody(db: Database, two: Two) -> None:
    await _fill(db, two.a)
    for ref, id in NAMES:
        async with db.acquire() as conn:
            await _check(conn, ref, id)
        async with db.transaction(organization=two.a) as tx:
            await _check(tx.conn, ref, id)
    # Of somebody else nothing is found, and the look is no longer than for one's own.
    async with db.transaction(organization=two.b) as tx:
        assert await tx.fetchval("select count(*) from onceward.events_named('evt_77')") == 0
        plan = await explain(tx.conn, "select onceward.events_named($1)", "evt_77")
        assert pages(plan) < 600


async def test_an_event_is_found_by_its_senders_name_without_a_source(db: Database) -> None:
    await db.execute(
        "insert into onceward.webhook_events (webhook_id, event_id, provider, type, status)"
        " values (gen_random_uuid(), 'evt_orphan', 'p', 't', 'success'), (gen_random_uuid(), '4711', 'p', 't', 'success')"
    )
    async with db.acquire() as conn:
        assert (await trace(conn, "evt_orphan", FEATURES.traced)).node.kind == "event"
        assert (await trace(conn, "4711", FEATURES.traced)).node.kind == "event", "a name may look like a number"


async def test_no_table_with_a_cause_is_without_an_index_on_it(db: Database) -> None:
    rows = await db.fetch(
        "select c.oid::regclass::text as name from pg_class c"
        " join pg_attribute a on a.attrelid = c.oid and a.attname = 'caused_by' and not a.attisdropped"
        " where c.relkind in ('r', 'p') and not exists"
        " (select from pg_index i where i.indrelid = c.oid and i.indkey[0] = a.attnum)"
    )
    assert [row["name"] for row in rows] == []


async def test_a_trace_for_nobody_sees_nothing_by_name(db: Database, two: Two) -> None:
    await db.execute(
        "insert into onceward.webhook_events (event_id, organization_id, provider, type, status)"
        " values ('evt_a', $1, 'p', 't', 'success')",
        two.a,
    )
    async with db.transaction() as tx:
        assert (
            await tx.fetch(
                "select * from onceward.webhook_events e where e.seq in (select onceward.events_named('evt_a'))"
            )
            == []
        )
