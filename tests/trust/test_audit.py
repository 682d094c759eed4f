"""The audit log: appended with the deed, refused to everybody's edits, and proven whole."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import asyncpg
import pytest

from onceward.db import Cause, Database
from onceward.trust import Sealer, list_entries, record
from onceward.trust.chain import ChainReport, Head, prove
from onceward.trust.sealer import head
from tests.trust.conftest import BOX, Two


async def write(db: Database, count: int = 3, **options: object) -> list[int]:
    async with db.transaction(organization=options.pop("organization", None)) as tx:  # type: ignore[arg-type]
        for number in range(count):
            await record(tx, "seat.sold", entity_type="seat", entity_id=f"A{number}", changes={"price": number})
    return [row["id"] for row in await db.fetch("select id from onceward.audit_log order by id")]


async def proof(db: Database, *known: Head) -> ChainReport:
    async with db.acquire() as conn:
        return await prove(conn, BOX, known=known)


async def seal_all(db: Database, batch: int = 1000) -> None:
    sealer = Sealer(db, BOX, batch=batch)
    while await sealer.step():
        pass


async def tamper(db: Database, statement: str, *args: object) -> None:
    """As a superuser who knows how to switch our triggers off."""
    async with db.acquire() as conn, conn.transaction():
        for table in ("audit_log", "audit_seals"):
            await conn.execute(f"alter table onceward.{table} disable trigger all")
        await conn.execute(statement, *args)
        for table in ("audit_log", "audit_seals"):
            await conn.execute(f"alter table onceward.{table} enable trigger all")


async def test_an_entry_exists_if_and_only_if_its_transaction_commits(db: Database) -> None:
    with pytest.raises(RuntimeError):
        async with db.transaction() as tx:
            await record(tx, "x", entity_type="seat", entity_id=1)
            raise RuntimeError
    assert await db.fetchval("select count(*) from onceward.audit_log") == 0
    assert await db.fetchval("select count(*) from onceward.audit_pending") == 0


async def test_an_entry_knows_its_organization_cause_and_actor(db: Database, two: Two) -> None:
    async with db.transaction(organization=two.a, cause=Cause("event", 77)) as tx:
        await record(tx, "seat.sold", entity_type="seat", entity_id="A1", changes={"status": {"from": "held"}})
        [entry] = await list_entries(tx, action="seat.sold")
    assert (entry.organization_id, entry.caused_by, entry.actor) == (two.a, 77, "event:77")
    assert entry.changes == {"status": {"from": "held"}}


async def test_the_app_role_cannot_write_for_another_organization(db: Database, two: Two) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with db.transaction(organization=two.a) as tx:
            await record(tx, "x", entity_type="seat", entity_id=1, organization=two.b)


@pytest.mark.parametrize(
    "statement",
    [
        "update onceward.audit_log set action = 'other'",
        "update onceward.audit_log set actor = 'other', erased_at = now()",
        "update onceward.audit_log set changes = '{}', erased_at = now()",
        "delete from onceward.audit_log",
        "truncate onceward.audit_log",
        "update onceward.audit_seals set hash = ''",
        "delete from onceward.audit_seals",
        "truncate onceward.audit_seals",
        "set session_replication_role = replica; delete from onceward.audit_log",
    ],
)
@pytest.mark.parametrize("role", ["app", "engine", "owner"])
async def test_nobody_changes_or_deletes_an_entry(db: Database, statement: str, role: str) -> None:
    await write(db)
    await seal_all(db)
    async with db.acquire() as conn:
        if role != "owner":
            await conn.execute(f"set role onceward_{role}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await conn.execute(statement)
        await conn.execute("reset all; reset role")
    assert await db.fetchval("select count(*) from onceward.audit_log") == 3


async def test_an_untouched_chain_is_whole(db: Database) -> None:
    await write(db, 25)
    await seal_all(db, batch=10)
    report = await proof(db)
    assert report.ok
    assert (report.entries, report.pending, report.head.number) == (25, 0, 3)


async def test_the_session_time_zone_does_not_change_a_hash(db: Database) -> None:
    await write(db)
    await seal_all(db)
    async with db.acquire() as conn:
        await conn.execute("set timezone = 'Asia/Kathmandu'; set datestyle = 'german'; set extra_float_digits = 0")
        assert (await prove(conn, BOX)).ok
        await conn.execute("reset all")


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("update onceward.audit_log set action = 'seat.given' where id = $1", "was changed"),
        ("update onceward.audit_log set at = at + interval '1 us' where id = $1", "was changed"),
        ("update onceward.audit_log set organization_id = gen_random_uuid() where id = $1", "was changed"),
        ("update onceward.audit_log set caused_by = 5 where id = $1", "was changed"),
        ("update onceward.audit_log set changes = '{\"price\": 0.0}' where id = $1", "content was changed"),
        ("update onceward.audit_log set actor = 'somebody' where id = $1", "who was changed"),
        ("update onceward.audit_log set content_hash = sha256('x') where id = $1", "was changed"),
        ("delete from onceward.audit_log where id = $1", "was deleted"),
        (
            "update onceward.audit_log set changes = null, content_salt = null, erased_at = now() where id = $1",
            "no audit entry records the erasure",
        ),
        ("update onceward.audit_seals set ids = array_remove(ids, $1)", "was changed"),
        ("delete from onceward.audit_seals where $1 = any (ids)", "is missing"),
        (
            "update onceward.audit_seals set ids = array(select i from unnest(ids) i order by i desc) where $1 > 0",
            "was changed",
        ),
        ("update onceward.audit_seals set number = number + 100 where $1 = any (ids)", "was changed"),
    ],
)
async def test_what_a_superuser_did_is_found(db: Database, statement: str, complaint: str) -> None:
    ids = await write(db, 6)
    await seal_all(db, batch=2)
    await tamper(db, statement, ids[2])
    report = await proof(db)
    assert any(complaint in problem for problem in report.problems), report.problems


async def test_an_entry_rehashed_by_a_superuser_is_found(db: Database) -> None:
    ids = await write(db, 2)
    await seal_all(db)
    await tamper(
        db,
        """update onceward.audit_log set changes = '{"price": 9}', content_hash = sha256(content_salt || convert_to(
            jsonb_build_object('reason', reason, 'changes', '{"price": 9}'::jsonb, 'metadata', metadata)::text, 'UTF8'))
           where id = $1""",
        ids[1],
    )
    assert (await proof(db)).problems == (f"entry {ids[1]} of seal 1 was changed",)


async def test_a_truncated_or_rewritten_chain_is_found_by_a_recorded_head(db: Database) -> None:
    await write(db, 2)
    await seal_all(db)
    await write(db, 2)
    await seal_all(db)
    async with db.acquire() as conn:
        noted = await head(conn)
    assert (await proof(db, Head.parse(str(noted)))).ok
    await tamper(
        db, "delete from onceward.audit_log a using onceward.audit_seals s where s.number = 2 and a.id = any (s.ids)"
    )
    await tamper(db, "delete from onceward.audit_seals where number = 2")
    assert (await proof(db)).ok
    assert "its end was cut off" in (await proof(db, noted)).problems[0]
    await write(db, 1)
    await seal_all(db)
    assert "the chain was rewritten" in (await proof(db, noted)).problems[0]


async def test_an_entry_deleted_before_it_was_sealed_is_found(db: Database) -> None:
    ids = await write(db, 3)
    await tamper(db, "delete from onceward.audit_log where id = $1", ids[1])
    await seal_all(db)
    assert (await proof(db)).problems == (f"entry {ids[1]} of seal 1 was deleted",)


async def test_an_entry_kept_from_the_sealer_is_found(db: Database) -> None:
    ids = await write(db, 3)
    await db.execute("delete from onceward.audit_pending where id = $1", ids[0])
    await seal_all(db)
    assert "neither sealed nor pending" in (await proof(db)).problems[0]


async def test_entries_that_commit_out_of_order_are_all_sealed_once(db: Database) -> None:
    async with db.transaction() as late:
        await record(late, "late", entity_type="x", entity_id=1)
        await write(db, 2)
        await seal_all(db)
    await seal_all(db)
    report = await proof(db)
    assert report.ok
    assert report.entries == 3
    assert await db.fetchval("select ids[1] from onceward.audit_seals where number = 2") == 1


async def test_sealers_on_many_nodes_make_one_chain(db: Database) -> None:
    await write(db, 40)
    sealers = [Sealer(db, BOX, batch=3) for _ in range(4)]
    while await db.fetchval("select count(*) from onceward.audit_pending"):
        await asyncio.gather(*(sealer.step() for sealer in sealers))
    report = await proof(db)
    assert report.ok
    assert report.entries == 40


async def test_the_sealer_works_by_itself_until_stopped(db: Database) -> None:
    sealer = Sealer(db, BOX, interval_s=0.01)
    await sealer.start()
    await write(db, 2)
    async with asyncio.timeout(10):
        while not (await proof(db)).entries:
            await db.execute("select pg_sleep(0.01)")
    await sealer.stop()
    assert (await proof(db)).ok


async def test_the_view_has_the_columns_of_clinics_and_takes_their_inserts(db: Database, two: Two) -> None:
    user = uuid4()
    insert = (
        "insert into audit.audit_logs(table_name, operation, row_data, changed_by, clinic_id)"
        " values ('webhook_events', 'replay', jsonb_build_object('note', 'x'), $1::text::uuid, $2)"
    )
    async with db.acquire() as conn, conn.transaction():
        await conn.execute("set local role onceward_sql_worker")
        await conn.execute(insert, str(user), two.a)
    async with db.transaction(organization=two.a) as tx:
        row = await tx.fetchrow("select * from audit.audit_logs where operation = 'replay'")
        assert row is not None
        assert (row["table_name"], row["row_data"], row["changed_by"], row["clinic_id"]) == (
            "webhook_events",
            {"note": "x"},
            str(user),
            two.a,
        )
    async with db.transaction(organization=two.b) as tx:
        assert await tx.fetch("select * from audit.audit_logs where operation = 'replay'") == []
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with db.transaction(organization=two.b) as tx:
            await tx.execute(insert, str(user), two.a)
