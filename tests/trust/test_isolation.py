"""Organizations are kept apart by the database: also when our own SQL forgets to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import asyncpg
import pytest

from onceward import Engine, Job, Onceward
from onceward.db import Database, Transaction
from onceward.runtime import FEATURES
from onceward.testing import drain
from onceward.trust import AlreadyActing, UnknownOrganization, act_for, list_entries, record
from onceward.trust.checks import (
    check_app_role_cannot_bypass,
    check_definer_functions_are_closed,
    check_tenant_tables_are_protected,
)
from onceward.trust.keys import create_key, list_keys
from onceward.trust.organizations import list_members, list_organizations, set_member
from onceward.trust.secrets import SecretBox, get_secret, put_secret
from tests.trust.conftest import Two

TENANT_TABLES = """
select c.oid::regclass::text as name
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'organization_id' and not a.attisdropped
join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema')
"""

OWNERS = f"select distinct pg_get_userbyid(c.relowner) as owner from pg_class c where c.oid::regclass::text in (select name from ({TENANT_TABLES}) t)"


@asynccontextmanager
async def savepoint(tx: Transaction) -> AsyncIterator[None]:
    await tx.execute("savepoint here")
    try:
        yield
    finally:
        await tx.execute("rollback to savepoint here")


async def fill(db: Database, organization: UUID) -> None:
    """A row of everything trust keeps."""
    async with db.transaction(role="engine", organization=organization) as tx:
        await create_key(tx, name="k", organization=organization, scopes=["viewer"], actor="test")
        await set_member(tx, organization, f"{organization}@example.org", "viewer", actor="test")
        await put_secret(tx, SecretBox(["k" * 32]), "token", str(organization))
        await tx.execute(
            "insert into onceward.jobs (id, organization_id, task, args)"
            " values (nextval('onceward.ids'), $1, 't', '{}')",
            organization,
        )


async def test_every_table_with_an_organization_is_protected(db: Database) -> None:
    async with db.acquire() as conn:
        assert await check_tenant_tables_are_protected(conn) == []


async def test_a_table_that_forgot_its_policy_is_found(db: Database) -> None:
    await db.execute("create schema shop; create table shop.orders (organization_id uuid)")
    await db.execute("create table shop.leaky (organization_id uuid)")
    await db.execute("select onceward.protect('shop.leaky')")
    await db.execute("create policy open on shop.leaky for select to onceward_app using (true)")
    await db.execute("create view shop.peek as select * from shop.leaky; grant select on shop.peek to onceward_app")
    async with db.acquire() as conn:
        problems = await check_tenant_tables_are_protected(conn)
    assert [problem.split(" has ")[0].split(" reads ")[0] for problem in problems] == [
        "shop.leaky",
        "shop.orders",
        "view shop.peek",
    ]


async def test_the_app_role_cannot_bypass(db: Database) -> None:
    async with db.acquire() as conn:
        assert await check_app_role_cannot_bypass(conn) == []
        async with conn.transaction():
            await conn.execute("create table mine (x int); alter table mine owner to onceward_app")
            assert "owns mine" in (await check_app_role_cannot_bypass(conn))[0]


HANDLER_ROLES = ("onceward_app", "onceward_sql_worker", "onceward_organization_worker", "onceward_producer")


async def test_no_role_of_a_handler_owns_a_tenant_table_or_can_become_one_that_does(db: Database) -> None:
    owners = {row["owner"] for row in await db.fetch(OWNERS)}
    assert owners
    for role in HANDLER_ROLES:
        row = await db.fetchrow("select rolsuper, rolbypassrls, rolcreaterole from pg_roles where rolname = $1", role)
        assert row is not None
        assert not any(row.values())
        reachable = await db.fetch("select rolname from pg_roles where pg_has_role($1::name, oid, 'member')", role)
        assert [each["rolname"] for each in reachable] == [role], "a member of nothing"
        assert role not in owners


async def test_every_tenant_table_refuses_a_handler_that_tries_to_lift_its_policy(db: Database, two: Two) -> None:
    await fill(db, two.b)
    for row in await db.fetch(TENANT_TABLES):
        for attempt in (
            "alter table {} disable row level security",
            "alter table {} owner to onceward_app",
            "create policy mine on {} using (true)",
            "truncate {}",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                async with db.transaction(organization=two.a) as tx:
                    await tx.execute(attempt.format(row["name"]))
        async with db.transaction(organization=two.a) as tx:
            if await tx.fetchval("select has_table_privilege($1, 'select')", row["name"]):
                with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                    async with savepoint(tx):
                        await tx.execute("set local row_security = off")
                        await tx.fetch(f"select * from {row['name']}")


async def test_a_role_that_could_reach_past_the_policies_is_found(db: Database) -> None:
    async with db.acquire() as conn, conn.transaction():
        await conn.execute("create table mine (x int); alter table mine owner to onceward_sql_worker")
        await conn.execute(
            "grant trigger on onceward.jobs to onceward_app; grant create on schema onceward to onceward_app"
        )
        problems = list(await check_app_role_cannot_bypass(conn))
        await conn.execute("drop table mine")
        await conn.execute("revoke trigger on onceward.jobs from onceward_app")
        await conn.execute("revoke create on schema onceward from onceward_app")
        assert await check_app_role_cannot_bypass(conn) == []
    assert [problem.split(" ", 1)[1] for problem in problems if "jobs" in problem] == [
        "may create triggers on onceward.jobs"
    ]
    assert "onceward_sql_worker owns mine" in problems
    assert "onceward_app may create objects in schema onceward" in problems


async def test_functions_with_their_owners_rights_are_closed(db: Database) -> None:
    async with db.acquire() as conn:
        assert await check_definer_functions_are_closed(conn) == []
        await conn.execute("create function public.f() returns int language sql security definer as 'select 1'")
        assert len(await check_definer_functions_are_closed(conn)) == 2


async def test_no_table_shows_another_organization_even_without_a_where(db: Database, two: Two) -> None:
    """The injected bug: every query here has lost its WHERE."""
    await fill(db, two.a)
    await fill(db, two.b)
    seen = 0
    for row in await db.fetch(TENANT_TABLES):
        async with db.transaction(organization=two.a) as tx:
            if not await tx.fetchval("select has_table_privilege($1, 'select')", row["name"]):
                continue
            owners = await tx.fetch(f"select organization_id from {row['name']}")
            assert {one["organization_id"] for one in owners} <= {two.a}, row["name"]
            seen += len(owners)
    assert seen >= 4


async def test_what_writes_without_a_where_touches_no_other_organization(db: Database, two: Two) -> None:
    await fill(db, two.a)
    await fill(db, two.b)
    async with db.transaction(organization=two.a) as tx:
        assert await tx.execute("update onceward.jobs set task = 'mine'") == "UPDATE 1"
        assert await tx.execute("delete from onceward.secrets") == "DELETE 1"
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with savepoint(tx):
                await tx.execute("update onceward.jobs set organization_id = $1", two.b)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with savepoint(tx):
                await tx.execute(
                    "insert into onceward.jobs (id, organization_id, task, args) values (9, $1, 't', '{}')", two.b
                )
    assert await db.fetchval("select task from onceward.jobs where organization_id = $1", two.b) == "t"
    assert await db.fetchval("select count(*) from onceward.secrets where organization_id = $1", two.b) == 1


async def test_the_platform_sees_no_organizations_rows_before_it_acts_for_one(db: Database, two: Two) -> None:
    await fill(db, two.a)
    async with db.transaction() as tx:
        assert await tx.fetch("select * from onceward.jobs") == []
        assert await list_organizations(tx.conn) == []


@pytest.mark.parametrize(
    "table", ["users", "sessions", "login_links", "auth_failures", "system_metrics", "audit_seals"]
)
async def test_handlers_cannot_read_what_belongs_to_the_instance(db: Database, table: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with db.transaction() as tx:
            await tx.fetch(f"select * from onceward.{table}")


async def test_handlers_see_keys_without_their_hashes_and_make_none(db: Database, two: Two) -> None:
    await fill(db, two.a)
    async with db.transaction(organization=two.a) as tx:
        assert len(await list_keys(tx)) == 1
        for statement in ("select hash from onceward.api_keys", "update onceward.api_keys set revoked_at = null"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                async with savepoint(tx):
                    await tx.execute(statement)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with savepoint(tx):
                await create_key(tx, name="k", organization=two.a, scopes=["owner"], actor="handler")


async def test_members_are_listed_for_one_organization(db: Database, two: Two) -> None:
    await fill(db, two.a)
    await fill(db, two.b)
    async with db.acquire() as conn:
        assert [member.email for member in await list_members(conn, two.a)] == [f"{two.a}@example.org"]


async def test_a_secret_is_its_organizations_own(db: Database, two: Two) -> None:
    box = SecretBox(["k" * 32])
    await fill(db, two.a)
    await fill(db, two.b)
    async with db.transaction(organization=two.b) as tx:
        assert await get_secret(tx, box, "token") == str(two.b)


# -- acting for an organization ----------------------------------------------------------------------------------


async def test_a_platform_wide_source_acts_for_one_organization_and_it_is_audited(db: Database, two: Two) -> None:
    async with db.transaction() as tx:
        await act_for(tx, str(two.a))
        await act_for(tx, two.a)
        await _insert_job(tx)
        entries = await list_entries(tx, action="organization.acted_for")
    assert [entry.organization_id for entry in entries] == [two.a]
    assert await db.fetchval("select organization_id from onceward.jobs") == two.a


async def test_acting_for_a_second_organization_is_an_error(db: Database, two: Two) -> None:
    async with db.transaction() as tx:
        await act_for(tx, two.a)
        with pytest.raises(AlreadyActing, match=str(two.b)):
            await act_for(tx, two.b)
    async with db.transaction(organization=two.b) as tx:
        with pytest.raises(AlreadyActing):
            await act_for(tx, two.a)


async def test_a_platform_wide_job_that_acts_for_an_organization_is_fenced_by_its_own_lease(
    db: Database, two: Two
) -> None:
    app = Onceward("t")
    lost: list[int] = []

    @app.job(outside=True)
    async def look(job: Job) -> str:
        async with job.transaction(fenced=True) as tx:
            await tx.act_for(two.a)
            await _insert_job(tx)
            if lost:
                await db.execute("update onceward.work set lease = lease + 1 where id = $1", job.id)
        return "done"

    engine = Engine(db, app.registry)
    found = await engine.enqueue(look)
    await drain(engine)
    finished = await engine.result(found)
    assert finished is not None
    assert (finished.outcome, finished.result) == ("success", "done")
    written = "select array_agg(organization_id) from onceward.jobs where task = 't'"
    assert await db.fetchval(written) == [two.a]
    lost.append(1)
    await engine.enqueue(look)
    await drain(engine)
    assert await db.fetchval(written) == [two.a]  # the other attempt lost its lease, and wrote nothing


@pytest.mark.parametrize("organization", [uuid4(), "not-a-uuid", "'; drop table x"])
async def test_acting_for_nobody_we_know_is_an_error(db: Database, organization: UUID | str) -> None:
    async with db.transaction() as tx:
        with pytest.raises(UnknownOrganization):
            await act_for(tx, organization)
        assert tx.organization is None
        assert await tx.fetchval("select onceward.organization()") is None
        await record(tx, "still.works", entity_type="x", entity_id=1)


async def _insert_job(tx: Transaction) -> None:
    await tx.execute(
        "insert into onceward.jobs (id, organization_id, task, args)"
        " values (nextval('onceward.ids'), onceward.organization(), 't', '{}')"
    )


async def test_the_engine_may_read_every_table_and_call_every_function_and_erase_what_erasers_erase(
    db: Database,
) -> None:
    """Processes act as the engine, and tests mostly as a superuser: a missing grant would show only in production."""
    missing = await db.fetch(
        "select c.oid::regclass::text from pg_class c where c.relnamespace in ('onceward'::regnamespace, 'audit'::regnamespace)"
        " and c.relkind in ('r', 'p', 'v') and not has_table_privilege('onceward_engine', c.oid, 'select')"
        " union all select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'onceward'::regnamespace"
        " and p.proname <> 'protect' and not has_function_privilege('onceward_engine', p.oid, 'execute')"
    )
    assert [row[0] for row in missing] == []
    for eraser in (one for erasers in FEATURES.load("erasers") for one in erasers):
        for column in eraser.blank:
            may = "select has_column_privilege('onceward_engine', $1::text, $2::text, 'update')"
            assert await db.fetchval(may, eraser.table, column), (eraser.table, column)
        if eraser.delete:
            assert await db.fetchval("select has_table_privilege('onceward_engine', $1::text, 'delete')", eraser.table)
