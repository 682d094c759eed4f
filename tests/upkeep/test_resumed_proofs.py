"""`verify` continues where the last run ended: nothing new escapes it, and a full run finds what was changed below the mark."""

from __future__ import annotations

import pytest

from onceward.db import Database
from onceward.inbox import checks as inbox
from onceward.ledger import Entry, open_account, post
from onceward.ledger import checks as ledger
from onceward.testing import until
from onceward.trust import Result, Sealer, create_organization, invariants, verify
from onceward.trust.chain import prove
from tests.trust.conftest import BOX
from tests.trust.test_audit import seal_all, tamper, write

EVENTS = [check for check in inbox.CHECKS if check.name == "inbox.unfinished_events_have_work"]


async def problems(db: Database, *, full: bool = False) -> list[str]:
    [result] = await verify(db, EVENTS, full=full)
    return list(result.problems)


async def add_event(db: Database, name: str) -> int:
    """Insert an event, for which a trigger creates work."""
    return await db.fetchval(
        "insert into onceward.webhook_events (event_id, provider, type) values ($1, 'p', 't') returning seq", name
    )


async def test_only_entries_since_the_last_proof_are_read_and_a_full_proof_reads_all(db: Database) -> None:
    old = await write(db, 3)
    await seal_all(db)
    async with db.acquire() as conn:
        first = await prove(conn, BOX, full=False)
    assert (first.ok, first.entries, first.earlier) == (True, 3, 0)
    await write(db, 2)
    await seal_all(db)
    await tamper(db, "update onceward.audit_log set actor = 'nobody' where id = $1", old[0])
    async with db.acquire() as conn:
        later = await prove(conn, BOX, full=False)
        assert (later.ok, later.entries, later.earlier) == (True, 2, 3), "the change is below the mark"
        assert (await prove(conn, BOX, full=True)).problems == (f"entry {old[0]} of seal 1: its who was changed",)
        again = await prove(conn, BOX, full=False)
        assert (again.ok, again.entries) == (False, 5), "after a problem everything is checked until it is repaired"


async def test_new_tampering_is_found_without_full(db: Database) -> None:
    await write(db, 3)
    await seal_all(db)
    async with db.acquire() as conn:
        assert (await prove(conn, BOX, full=False)).ok
    ids = await write(db, 3)
    await seal_all(db)
    await tamper(db, "delete from onceward.audit_log where id = $1", ids[-1])
    async with db.acquire() as conn:
        assert (await prove(conn, BOX, full=False)).problems == (f"entry {ids[-1]} of seal 2 was deleted",)


async def test_a_chain_that_was_rewritten_up_to_the_mark_is_found_without_full(db: Database) -> None:
    await write(db, 3)
    await seal_all(db)
    async with db.acquire() as conn:
        assert (await prove(conn, BOX, full=False)).ok
        await tamper(db, "update onceward.audit_seals set hash = sha256('x') where number = 1")
        assert any("the chain was rewritten" in each for each in (await prove(conn, BOX, full=False)).problems)


async def test_an_entry_that_was_never_sealed_is_found_above_the_mark(db: Database) -> None:
    await write(db, 2)
    await seal_all(db)
    async with db.acquire() as conn:
        assert (await prove(conn, BOX, full=False)).ok
    ids = await write(db, 1)
    await db.execute("delete from onceward.audit_pending")
    await Sealer(db, BOX).step()
    async with db.acquire() as conn:
        found = (await prove(conn, BOX, full=False)).problems
    assert found == (f"entry {ids[-1]} is neither sealed nor pending: its seal was removed",)


async def test_an_event_that_was_unfinished_at_the_last_proof_is_looked_at_again(db: Database) -> None:
    waiting = await add_event(db, "evt_1")
    assert await problems(db) == []
    await db.execute("delete from onceward.work where id = $1", waiting)
    assert len(await problems(db)) == 1


async def test_an_event_finished_below_the_mark_and_changed_afterwards_is_found_by_a_full_run(db: Database) -> None:
    done = await add_event(db, "evt_1")
    await db.execute(
        "update onceward.webhook_events set status = 'success', settles = settles + 1 where seq = $1", done
    )
    await db.execute("delete from onceward.work where id = $1", done)
    assert await problems(db) == []
    async with db.acquire() as conn:
        await conn.execute("set session_replication_role = replica")
        await conn.execute("update onceward.webhook_events set status = 'pending' where seq = $1", done)
        await conn.execute("reset session_replication_role")
    assert await problems(db) == []
    assert len(await problems(db, full=True)) == 1


async def test_an_event_committed_late_with_a_small_number_is_not_passed_over(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invariants, "SETTLE_S", 0.05)
    async with db.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        seq = await conn.fetchval(
            "insert into onceward.webhook_events (event_id, provider, type) values ('late', 'p', 't') returning seq"
        )
        await conn.execute("delete from onceward.work where id = $1", seq)
        await add_event(db, "evt_2")
        assert await problems(db) == []
        await transaction.commit()
    assert await problems(db) == [f"event {seq} is pending, but has no work: no worker will handle it"]


async def test_the_ledger_adds_new_entries_to_the_sums_that_were_proven(db: Database) -> None:
    async with db.transaction(role="engine") as tx:
        owner = (await create_organization(tx, "acme", actor="test")).organization_id

    async def sell(key: str) -> None:
        async with db.transaction(organization=owner) as tx:
            await post(tx, [Entry(debit="cash", credit="revenue", amount=10, currency="EUR")], key=key)

    async def check(*, full: bool = False) -> dict[str, Result]:
        for _ in range(2):
            await db.fetchval("select onceward.ledger_checkpoint()")
        return {each.name.removeprefix("ledger."): each for each in await verify(db, ledger.CHECKS, full=full)}

    async def change(statement: str) -> None:
        async with db.acquire() as conn:
            await conn.execute("set session_replication_role = replica")
            await conn.execute(statement)
            await conn.execute("reset session_replication_role")

    async with db.transaction(organization=owner) as tx:
        await open_account(tx, "cash", currency="EUR", kind="asset")
        await open_account(tx, "revenue", currency="EUR", kind="revenue")
    await sell("a")
    assert all(each.ok for each in (await check()).values())
    await sell("b")

    async def has_proven_the_first() -> bool:
        found = await check()
        assert all(each.ok for each in found.values())
        return found["checkpoints_are_sums_of_entries"].since["through"] > 0

    # The marks do not pass what an open transaction may still write; tests beside this one have transactions too.
    await until(has_proven_the_first)
    await change("update onceward.ledger_checkpoints set debits = debits + 1 where debits > 0")
    assert not (await check())["checkpoints_are_sums_of_entries"].ok
    await change("update onceward.ledger_checkpoints set debits = debits - 1 where debits > 0")
    await change("update onceward.ledger_journals set total = 11 where key = 'a'")

    async def is_below_the_mark() -> bool:
        return (await check())["journals_have_all_their_entries"].ok

    await until(is_below_the_mark)
    assert not (await check(full=True))["journals_have_all_their_entries"].ok
    await change("update onceward.ledger_journals set total = 10 where key = 'a'")
    assert all(each.ok for each in (await check()).values())
    await sell("c")
    await change("update onceward.ledger_journals set total = 11 where key = 'c'")
    assert not (await check())["journals_have_all_their_entries"].ok
