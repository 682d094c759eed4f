"""One scene for each SQL text of the documentation: what the page assumes, then the statements, then what they did."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from onceward.db import Connection, Database
from onceward.messages.template_versions import record_versions
from onceward.messages.templates import Template, Templates
from onceward.outbox import catalogue
from tests.docs.sql_texts import SqlText

ORDERS = (
    "create table orders (id int primary key, amount int, packed boolean); create table shop_order (id int primary key)"
)


@dataclass
class SqlWorld:
    """One text and the database it is executed in: that of the demo, with an organization."""

    text: SqlText
    db: Database
    url: str
    organization: UUID

    @classmethod
    async def prepare(cls, text: SqlText, db: Database, url: str) -> SqlWorld:
        await db.execute(ORDERS)
        slug = f"school-{uuid4().hex[:8]}"
        organization = await db.fetchval(
            "insert into onceward.organizations (slug, name) values ($1, 'School') returning organization_id", slug
        )
        return cls(text, db, url, organization)

    def statements(self, **values: str) -> list[str]:
        """Return the statements, with these values for the words that stand for values of the reader."""
        return [self.fill(statement, **values) for statement in self.text.statements()]

    def fill(self, statement: str, **values: str) -> str:
        for name, value in values.items():
            statement, count = re.subn(rf"\b{name}\b", lambda _, value=value: value, statement)
            assert count, f"{self.text} does not contain {name}"
        return statement

    async def one(self, conn: Connection | Database | None = None) -> list[asyncpg.Record]:
        """Run the only statement as it stands on the page."""
        [statement] = self.text.statements()
        return await (conn or self.db).fetch(statement)

    async def as_app(self) -> list[asyncpg.Record]:
        """Run the only statement as a handler or a program of the organization does."""
        async with self.db.transaction(role="app", organization=self.organization) as tx:
            return await self.one(tx.conn)

    async def login(self, name: str) -> Connection:
        """Connect as this role. The test's server asks for no password."""
        return await asyncpg.connect(self.url, user=name)

    async def insert_event(self) -> asyncpg.Record:
        row = await self.db.fetchrow(
            "insert into webhook_events (event_id, payload) values ('e' || gen_random_uuid(), '{}') returning id, seq, webhook_id"
        )
        assert row is not None
        return row

    async def declare(self, *types: str) -> None:
        async with self.db.acquire() as conn:
            await catalogue.save(conn, [catalogue.EventType(each) for each in types])

    async def status(self, id: UUID) -> str:
        return await self.db.fetchval("select status from webhook_events where id = $1", id)


Scene = Callable[[SqlWorld], Awaitable[None]]
SCENES: dict[tuple[str, str], Scene] = {}


def scene(page: str, part: str) -> Callable[[Scene], Scene]:
    """Register the function for the text of this page that contains this part."""

    def register(function: Scene) -> Scene:
        SCENES[page, part] = function
        return function

    return register


# -- the server and its roles


@scene("docs/backup.md", "pg_is_in_recovery")
async def a_promoted_server_is_not_in_recovery(world: SqlWorld) -> None:
    assert [tuple(row) for row in await world.one()] == [(False,)]


@scene("docs/database.md", "nologin noinherit")
async def the_roles_of_a_server_without_createrole(world: SqlWorld) -> None:
    suffix = uuid4().hex[:8]
    roles = (
        "onceward_engine",
        "onceward_app",
        "onceward_sql_worker",
        "onceward_organization_worker",
        "onceward_producer",
    )
    names = {name: f"{name}_{suffix}" for name in roles}
    *creates, inherits, grant = world.text.statements()
    async with world.db.acquire() as conn:
        await conn.execute("begin")
        await conn.execute(f"create role owner_{suffix} login")
        for create, (name, new) in zip(creates, names.items(), strict=True):
            await conn.execute(world.fill(create, **{name: new}))
        await conn.execute(world.fill(inherits, **{name: names[name] for name in ("onceward_engine", "onceward_app")}))
        assert await conn.fetchval(
            "select pg_has_role($1, $2, 'usage')", names["onceward_engine"], names["onceward_app"]
        )
        await conn.execute(world.fill(grant, **names, user=f"owner_{suffix}"))
        for new in names.values():
            assert await conn.fetchval("select pg_has_role($1, $2, 'set')", f"owner_{suffix}", new)
            assert not await conn.fetchval("select pg_has_role($1, $2, 'usage')", f"owner_{suffix}", new)
        await conn.execute("rollback")


@scene("docs/database.md", "create role onceward_runtime")
async def the_login_of_processes_acts_as_the_engine(world: SqlWorld) -> None:
    names = {name: f"{name}_{uuid4().hex[:8]}" for name in ("onceward_runtime", "owner")}
    async with world.db.acquire() as conn:
        await conn.execute(f"begin; create role {names['owner']} login")
        for statement in world.text.statements():
            await conn.execute(world.fill(statement, **{old: new for old, new in names.items() if old in statement}))
        for role in ("onceward_engine", "onceward_app", "onceward_sql_worker"):
            assert await conn.fetchval("select pg_has_role($1, $2, 'set')", names["onceward_runtime"], role)
        assert await conn.fetchval("select pg_has_role($1, $2, 'usage')", names["owner"], names["onceward_runtime"])
        await conn.execute("rollback")


@scene("docs/pgbouncer.md", "idle_in_transaction_session_timeout")
async def the_settings_of_the_role_apply_to_its_sessions(world: SqlWorld) -> None:
    role = f"bounced_{uuid4().hex[:8]}"
    await world.db.execute(f"create role {role} login")
    try:
        for statement in world.text.statements():
            await world.db.execute(world.fill(statement, user=role))
        conn = await world.login(role)
        try:
            assert await conn.fetchval("show idle_in_transaction_session_timeout") == "1min"
            assert await conn.fetchval("show client_connection_check_interval") == "10s"
            assert await conn.fetchval("show search_path") == "public"
        finally:
            await conn.close()
    finally:
        await world.db.execute(f"drop role {role}")


@scene("docs/upgrading.md", "pg_terminate_backend")
async def the_session_in_the_way_ends(world: SqlWorld) -> None:
    conn = await asyncpg.connect(world.url)
    await conn.execute("begin")
    [statement] = world.statements(**{"4711": str(conn.get_server_pid())})
    assert await world.db.fetchval(statement)
    # asyncpg raises InternalClientError if it reads the end of the connection while it sends the statement.
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, ConnectionError)):
        await conn.fetchval("select 1")


@scene("docs/trust.md", "onceward.protect")
async def a_protected_table_hides_the_rows_of_others(world: SqlWorld) -> None:
    await world.db.execute("create schema schema; create table schema.table_ (organization_id uuid, n int)")
    [statement] = world.text.statements()
    await world.db.fetchval(statement.replace("schema.table", "schema.table_"))
    await world.db.execute("grant usage on schema schema to onceward_app")
    await world.db.execute("insert into schema.table_ values ($1, 1), ($2, 2)", world.organization, uuid4())
    async with world.db.transaction(role="app", organization=world.organization) as tx:
        assert await tx.fetchval("select array_agg(n) from schema.table_") == [1]


@scene("docs/frameworks/django.md", "grant select, update on shop_order")
@scene("docs/frameworks/psycopg.md", "grant select, insert, update on orders")
@scene("docs/frameworks/sqlalchemy.md", "grant select, insert, update, delete on orders")
async def handlers_may_use_the_table(world: SqlWorld) -> None:
    [statement] = world.text.statements()
    await world.db.execute(statement)
    privileges, table = re.findall(r"grant (.*) on (\w+) to", statement)[0]
    for privilege in privileges.split(", "):
        assert await world.db.fetchval("select has_table_privilege('onceward_app', $1, $2)", table, privilege)


# -- work


@scene("docs/work.md", "onceward.enqueue('ship'")
@scene("docs/frameworks/psycopg.md", "onceward.enqueue('pack'")
async def a_job_is_enqueued_once(world: SqlWorld) -> None:
    [first] = await world.as_app()
    [again] = await world.as_app()
    assert first == again
    assert await world.db.fetchval("select organization_id from onceward.jobs") == world.organization


@scene("docs/other-languages.md", "onceward.send('order-confirmation'")
async def a_producer_causes_work_once(world: SqlWorld) -> None:
    templates = Templates()
    await world.declare("order.paid")
    templates.add(Template("order-confirmation", {"en": {"subject": "s", "text": "t"}}))
    await record_versions(world.db, templates, None)
    async with world.db.acquire() as conn:
        await conn.execute("set role onceward_producer")
        await conn.execute("select set_config('onceward.organization', $1, false)", str(world.organization))
        first, again = [[await conn.fetchrow(each) for each in world.statements()] for _ in range(2)]
        await conn.execute("reset role; reset onceward.organization")
    assert [(row or {}).get("id") for row in first] == [(row or {}).get("id") for row in again]
    kinds = await world.db.fetch("select kind from onceward.work where organization_id = $1", world.organization)
    assert sorted(row["kind"] for row in kinds) == ["job", "message"], "no endpoint wants the event"


@scene("docs/other-languages.md", "create role billing")
async def a_producer_of_the_installation_names_an_organization(world: SqlWorld) -> None:
    login = f"billing_{uuid4().hex[:8]}"
    create, name = world.statements()
    await world.db.execute(world.fill(create, billing=login))
    try:
        conn = await world.login(login)
        try:
            await conn.execute(name.replace("<organization_id>", str(world.organization)))
            await conn.execute("select onceward.enqueue('t')")
        finally:
            await conn.close()
    finally:
        await world.db.execute(f"drop role {login}")
    assert await world.db.fetchval("select organization_id from onceward.jobs") == world.organization


@scene("docs/workflows.md", "onceward.start_workflow")
async def a_workflow_waits_for_a_worker(world: SqlWorld) -> None:
    await world.as_app()
    assert await world.db.fetchval("select args ->> 'trip_id' from onceward.workflows") == "..."
    assert await world.db.fetchval("select kind from onceward.work") == "workflow"


@scene("docs/limits.md", "limit_state")
@scene("docs/limits.md", "limit_history")
async def a_limit_shows_its_value_and_its_changes(world: SqlWorld) -> None:
    await world.db.execute(
        """
        insert into onceward.limits (name, at_most, reason) values ('global', 7, 'test')
            on conflict (name) do update set at_most = 7, reason = 'test';
        insert into onceward.limit_changes (name, changed_at, before, after, reason) values ('global', now(), 9, 7, 'test')
        """
    )
    [row] = await world.as_app()
    assert row["reason"] == "test"
    assert 7 in row.values()


# -- events, messages, outbound webhooks


@scene("docs/inbox.md", "on conflict (webhook_id, event_id) do nothing")
async def events_are_inserted_claimed_marked_and_repeated(world: SqlWorld) -> None:
    insert, claim, mark, again = world.text.statements()
    async with world.db.acquire() as conn:
        await conn.execute("set role onceward_sql_worker")
        unknown = uuid4()
        for _ in range(2):
            await conn.execute(insert, unknown, "evt_1", {"n": 1})
        row = await conn.fetchrow(claim)
        assert row is not None
        id, lease = row["id"], row["lease"]
        await conn.execute(mark.replace("<id>", str(id)).replace("<lease>", f"'{lease}'"))
        assert await world.status(id) == "success"
        assert await conn.fetchrow(claim) is None, "the second insert caused nothing"
        await conn.execute(again.replace("<id>", str(id)))
        assert (await conn.fetchrow(claim) or {})["id"] == id
        await conn.execute("reset role")


@scene("docs/webhook-worker.md", "create role lab_worker")
async def the_worker_may_claim_and_read_nothing_else(world: SqlWorld) -> None:
    role = f"lab_worker_{uuid4().hex[:8]}"
    event = await world.insert_event()
    await world.db.execute(world.statements(lab_worker=role)[0])
    try:
        conn = await world.login(role)
        try:
            row = await conn.fetchrow("select * from webhook.claim_next_event(null)")
            assert (row or {})["id"] == event["id"]
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await conn.fetch("select * from onceward.sources")
        finally:
            await conn.close()
    finally:
        await world.db.execute(f"drop role {role}")


@scene("docs/webhook-worker.md", "claim_next_event(NULL)")
async def the_oldest_event_is_claimed(world: SqlWorld) -> None:
    first, _ = await world.insert_event(), await world.insert_event()
    assert [row["id"] for row in await world.one()] == [first["id"]]


@scene("docs/webhook-worker.md", "update webhook_events set status = 'pending' where")
@scene("docs/runbook.md", "update webhook_events set status = 'pending', attempts = 0")
async def a_dead_letter_runs_again(world: SqlWorld) -> None:
    event = await world.insert_event()
    await world.db.execute("update webhook_events set status = 'dead_letter' where id = $1", event["id"])
    [statement] = world.text.statements()
    known = statement.replace("'...'", "...").replace("where id = ...", "where ...")
    await world.db.execute(known.replace("...", f"id = '{event['id']}'"))
    assert await world.status(event["id"]) == "pending"
    assert [row["id"] for row in await world.db.fetch("select * from webhook.claim_next_event()")] == [event["id"]]
    assert await world.db.fetchval("select count(*) from onceward.audit_log where action like 'event.%'")


@scene("docs/runbook.md", "webhook.release_expired")
async def claims_of_stopped_workers_end_at_once(world: SqlWorld) -> None:
    event = await world.insert_event()
    await world.db.execute("select * from webhook.claim_next_event()")
    assert await world.status(event["id"]) == "processing"
    assert [tuple(row) for row in await world.one()] == [(1,)]
    assert await world.status(event["id"]) == "pending"


@scene("docs/runbook.md", "from onceward.webhook_rejects order by at")
async def rejected_requests_are_listed(world: SqlWorld) -> None:
    await world.db.execute(
        "insert into onceward.webhook_rejects (slot, reason, status) values (1, 'signature', 401), (2, 'stale', 400)"
    )
    assert len(await world.one()) == 2


@scene("docs/runbook.md", "where kind = 'event' group by")
async def waiting_and_dead_events_are_counted(world: SqlWorld) -> None:
    await world.insert_event()
    event = await world.insert_event()
    await world.db.execute("update webhook_events set status = 'dead_letter' where id = $1", event["id"])
    [row] = await world.one()
    assert (row["queue"], row["waiting"], row["dead"]) == ("external", 1, 1)


@scene("docs/messages.md", "onceward.notify")
async def administrators_get_a_notice(world: SqlWorld) -> None:
    await world.as_app()
    row = await world.db.fetchrow("select type, severity, title from onceward.notices")
    assert tuple(row or ()) == ("TYPE", "error", "title")


@scene("docs/outbox.md", "onceward.publish('order.paid'")
@scene("docs/frameworks/psycopg.md", "onceward.publish('order.placed'")
async def an_event_is_published(world: SqlWorld) -> None:
    await world.declare("order.paid", "order.placed")
    [row] = await world.as_app()
    assert not row["duplicate"]
    assert await world.db.fetchval("select organization_id from onceward.published where id = $1", row["id"])


# -- live, ledger


@scene("docs/live.md", "learning.enrollments")
@scene("docs/live.md", "onceward.watch('t'")
async def changes_go_to_the_feed(world: SqlWorld) -> None:
    await world.db.execute("create table t (a int)")
    await world.one()
    target = "t" if "'t'" in world.text.code else "learning.enrollments"
    triggers: Any = await world.db.fetchval(
        "select count(*) from pg_trigger where tgrelid = $1::text::regclass and not tgisinternal and tgname like 'onceward%'",
        target,
    )
    assert triggers


@scene("docs/ledger.md", "onceward.ledger_post")
async def a_journal_is_posted_once(world: SqlWorld) -> None:
    [statement] = world.statements(
        key="'sale:1'", debits="array['cash']", credits="array['sales']", amounts="array[4200]", currencies="array['EUR']",
        memo="'Sale'", pending="false",
    )  # fmt: skip
    for fresh in (True, False):
        async with world.db.transaction(role="app", organization=world.organization) as tx:
            if fresh:
                for code, kind in (("cash", "asset"), ("sales", "revenue")):
                    await tx.fetch("select onceward.ledger_open($1, 'EUR', $2, false, null)", code, kind)
            row = await tx.fetchrow(statement)
            assert row is not None
            assert row["fresh"] is fresh


@scene("docs/frameworks/fastapi.md", "to onceward_app")
async def a_handler_may_use_a_table_of_the_application(world: SqlWorld) -> None:
    for right in ("select", "insert", "update", "delete"):
        assert not await world.db.fetchval("select has_table_privilege('onceward_app', 'orders', $1)", right)
    await world.one()
    for right in ("select", "insert", "update", "delete"):
        assert await world.db.fetchval("select has_table_privilege('onceward_app', 'orders', $1)", right)
