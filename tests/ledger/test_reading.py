"""Balances, statements, checkpoints, and the check that recomputes them all."""

from __future__ import annotations

import asyncio
import time
import uuid
from uuid import UUID

import pytest

from onceward.db import Database
from onceward.ledger import (
    Entry,
    InvalidEntry,
    UnknownAccount,
    balance,
    check,
    checkpoint,
    open_account,
    post,
    reverse,
    statement,
    trial_balance,
)
from onceward.ledger.accounts import STATEMENT
from tests.ledger.conftest import sale


async def _found(db: Database) -> str:
    async with db.acquire() as conn:
        return "\n".join(await check(conn))


async def _fold(db: Database, entries: int) -> None:
    """Run checkpoints until this number of entries is folded; a writer in any database of the server may delay them."""
    folded = 0
    async with asyncio.timeout(60):
        while folded < entries:
            folded += await checkpoint(db)
            await asyncio.sleep(0.01)
    assert folded == entries


async def test_a_statement_has_every_entry_with_the_running_balance(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as tx:
        journal = await post(tx, sale(), key="sale:1", memo="order 1")
        await post(tx, [Entry("fees", "cash", 30, "EUR")], key="fee:1")
        await post(tx, sale(5), key="auth", pending=True)
        await reverse(tx, journal.id, key="refund:1")
        lines = await statement(tx, "cash", currency="EUR")
        assert [(line.amount, line.balance, line.other) for line in lines] == [
            (1000, 1000, "revenue"),
            (200, 1200, "tax"),
            (-30, 1170, "fees"),
            (-1000, 170, "revenue"),
            (-200, -30, "tax"),
        ]
        assert (lines[0].memo, lines[0].journal_kind, lines[-1].journal_kind) == ("order 1", "posted", "reversal")
        second = await statement(tx, "cash", currency="EUR", after=lines[1].entry_id, limit=2)
        assert second == lines[2:4]
        assert [line.balance for line in await statement(tx, "revenue", currency="EUR")] == [1000, 0]
        with pytest.raises(UnknownAccount):
            await statement(tx, "nothing", currency="EUR")
        with pytest.raises(UnknownAccount):
            await balance(tx, "fees", currency="USD")
        with pytest.raises(InvalidEntry):
            await statement(tx, "cash", currency="EUR", limit=0)


async def test_the_trial_balance_is_zero_in_every_currency(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as tx:
        await open_account(tx, "revenue", currency="USD", kind="revenue")
        await post(tx, [*sale(), Entry("cash", "revenue", 77, "USD")], key="sale:1")
        trials = await trial_balance(tx)
        assert [(trial.currency, trial.debits, trial.difference) for trial in trials] == [
            ("EUR", 1200, 0),
            ("USD", 77, 0),
        ]
        assert [trial.currency for trial in await trial_balance(tx, currency="USD")] == ["USD"]


async def test_a_checkpoint_waits_for_those_who_drew_their_ids_before_it(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as slow:
        await post(slow, sale(), key="slow")  # has its ids, and commits last
        async with db.transaction(organization=books) as tx:
            await post(tx, sale(), key="quick")
        assert [await checkpoint(db) for _ in range(3)] == [0, 0, 0]
    await _fold(db, 4)
    assert await db.fetchval("select through from onceward.ledger_horizon") == 4
    async with db.transaction(organization=books) as tx:
        await post(tx, [Entry("fees", "cash", 30, "EUR")], key="fee:1")
        assert (await balance(tx, "cash", currency="EUR")).balance == 2370
    await _fold(db, 1)
    assert await checkpoint(db) == 0
    async with db.transaction(organization=books) as tx:
        assert (await balance(tx, "cash", currency="EUR")).balance == 2370
    assert await _found(db) == ""


async def test_a_restored_database_starts_with_a_new_checkpoint(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as tx:
        await post(tx, sale(), key="sale:1")
    await checkpoint(db)
    await db.execute("update onceward.ledger_horizon set barrier = '999999999999'")  # of another server's counting
    await _fold(db, 2)
    assert await _found(db) == ""


async def test_a_checkpoint_refuses_to_share_a_transaction(db: Database, books: UUID) -> None:
    with pytest.raises(Exception, match="transaction of its own"):
        async with db.transaction(role="engine", organization=books) as tx:
            await post(tx, sale(), key="sale:1")
            await tx.execute("select onceward.ledger_checkpoint()")


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        (
            "update onceward.ledger_entries set amount = amount + 1 where id = 1",
            "ledger.journals_have_all_their_entries",
        ),
        ("delete from onceward.ledger_entries where id = 1", "ledger.journals_have_all_their_entries"),
        ("update onceward.ledger_entries set debit_id = debit_id + 1 where id = 1", "ledger.entries_stay_within"),
        ("update onceward.ledger_checkpoints set debits = debits + 1", "ledger.checkpoints_are_sums"),
        ("update onceward.ledger_bounds set balance = balance + 1", "ledger.bounded_accounts"),
        ("update onceward.ledger_drawn set drawn = drawn - 1", "ledger.reversals_stay"),
        ("delete from onceward.ledger_pending", "ledger.pending_has_not_ended"),
        ("alter table onceward.ledger_entries disable trigger append_only", "ledger.nothing_can_be_changed"),
    ],
)
async def test_check_finds_what_an_administrator_did_behind_its_back(
    db: Database, books: UUID, damage: str, finding: str
) -> None:
    async with db.transaction(organization=books) as tx:
        journal = await post(tx, sale(), key="sale:1")
        await post(tx, [Entry("cash", "wallet", 5, "EUR")], key="top-up")
        await post(tx, sale(), key="auth", pending=True)
        await reverse(tx, journal.id, key="refund")
    await _fold(db, 5)
    assert await _found(db) == ""
    await db.execute(f"begin; set local session_replication_role = replica; {damage}; commit")
    assert finding in await _found(db)


FILL = """
begin;
set local session_replication_role = replica;
insert into onceward.ledger_journals (id, organization_id, key, kind, body, entries, total)
select 1000000 + n, '{organization}', 'j' || n, 'posted', '', 4, 10 from generate_series(0, {journals} - 1) n;
insert into onceward.ledger_entries (journal_id, organization_id, debit_id, credit_id, amount, currency, pending)
select 1000000 + n / 4, '{organization}', a.id + n % 100, a.id + (n + 1) % 100, 1 + n % 4, 'EUR', false
from (select min(id) as id from onceward.ledger_accounts where organization_id = '{organization}') a,
     generate_series(0, {journals} * 4 - 1) n;
commit;
analyze onceward.ledger_entries, onceward.ledger_journals, onceward.ledger_accounts
"""


async def _fill(db: Database, organization: UUID, *, journals: int) -> None:
    """Journals of four entries each over the organization's hundred accounts, without the cost of posting them."""
    await db.execute(FILL.format(organization=organization, journals=journals))


@pytest.mark.slow
async def test_a_million_entries_are_checked_within_ten_seconds(db: Database, books: UUID) -> None:
    other = uuid.uuid4()
    async with db.transaction(organization=other) as tx:
        for number in range(100):
            await open_account(tx, f"a{number}", currency="EUR", kind="asset")
    await _fill(db, other, journals=250_000)
    started = time.monotonic()
    assert await _found(db) == ""
    assert time.monotonic() - started < 10
    await _fold(db, 1_000_000)
    async with db.transaction(organization=other) as tx:
        started = time.monotonic()
        assert (await balance(tx, "a7", currency="EUR")).debits == 10_000 * 4
        assert time.monotonic() - started < 1


async def test_a_page_of_a_statement_starts_from_the_last_mark(db: Database, books: UUID) -> None:
    """Otherwise each page, which the dashboard reads every few seconds, would add up all earlier entries."""
    async with db.transaction(organization=books) as tx:
        await post(tx, [Entry("cash", "revenue", 2, "EUR")] * 600, key="first")
    await _fold(db, 600)
    assert await db.fetchval("select count(*) from onceward.ledger_marks") == 0
    async with db.transaction(organization=books) as tx:
        await post(tx, [Entry("cash", "revenue", 2, "EUR")] * 600, key="second")
    await _fold(db, 600)
    assert await db.fetchval("select count(*) from onceward.ledger_marks") == 2  # one for each account
    async with db.transaction(organization=books) as tx:
        await post(tx, [Entry("cash", "revenue", 5, "EUR"), Entry("fees", "cash", 1, "EUR")], key="third")
        last = (await statement(tx, "cash", currency="EUR", limit=1200))[-1]
        assert last.balance == 2400
        after = await statement(tx, "cash", currency="EUR", after=last.entry_id)
        assert [line.balance for line in after] == [2405, 2404]
        [line] = await statement(tx, "revenue", currency="EUR", after=last.entry_id)
        assert line.balance == 2405
        plan = await tx.fetch(f"explain {STATEMENT}", books, "cash", "EUR", last.entry_id, 100)
        assert "ledger_entries_debit" in "".join(row[0] for row in plan)
    await db.execute("update onceward.ledger_marks set debits = debits + 7")
    async with db.transaction(organization=books) as tx:
        [line, _] = await statement(tx, "cash", currency="EUR", after=last.entry_id)
        assert line.balance == 2412  # the mark counts, and the entries before it are not read again
