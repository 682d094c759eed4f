"""Post, settle, void, reverse: what holds, and what is refused."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from onceward.db import Cause, Database
from onceward.ledger import (
    AccountDiffers,
    Entry,
    Insufficient,
    InvalidEntry,
    KeyConflict,
    LedgerError,
    NotPossible,
    OverDrawn,
    Part,
    UnknownAccount,
    UnknownJournal,
    balance,
    check,
    open_account,
    post,
    post_alone,
    reverse,
    settle,
    void,
)
from tests.ledger.conftest import sale


async def _balance(db: Database, organization: UUID, code: str) -> int:
    async with db.transaction(organization=organization) as tx:
        return (await balance(tx, code, currency="EUR")).balance


async def _entries(db: Database, journal_id: int) -> list[int]:
    rows = await db.fetch("select id from onceward.ledger_entries where journal_id = $1 order by id", journal_id)
    return [row["id"] for row in rows]


async def _clean(db: Database) -> None:
    async with db.acquire() as conn:
        assert await check(conn) == []


async def test_a_journal_posted_alone_is_committed_once_and_leaves_the_connection_as_it_was(
    db: Database, books: UUID
) -> None:
    async with db.transaction(organization=books) as tx:
        await post(tx, sale(), key="other")
    journal = await post_alone(db, books, sale(), key="sale:1", memo="order 1")
    assert journal.fresh
    again = await post_alone(db, books, sale(), key="sale:1", memo="order 1")
    assert (again.id, again.fresh) == (journal.id, False)
    assert await _balance(db, books, "cash") == 2400
    with pytest.raises(KeyConflict):
        await post_alone(db, books, sale(2000), key="sale:1")
    with pytest.raises(UnknownAccount):
        await post_alone(db, uuid.uuid4(), sale(), key="sale:2")
    with pytest.raises(InvalidEntry):
        await post_alone(db, books, [], key="sale:3")
    async with db.acquire() as conn:
        assert await conn.fetchval("select onceward.organization()") is None
    await _clean(db)


async def test_only_the_engine_posts_alone_and_never_inside_a_transaction_for_an_organization(
    db: Database, books: UUID
) -> None:
    call = "select onceward.ledger_post_alone($1, 'k', '{cash}', '{revenue}', '{1}', '{EUR}', null, false)"
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with db.transaction(organization=books) as tx:
            await tx.execute(call, books)
    with pytest.raises(asyncpg.PostgresError, match=r"use onceward\.ledger_post"):
        async with db.transaction(role="engine", organization=uuid.uuid4()) as tx:
            await tx.execute(call, books)


async def test_a_posted_journal_moves_both_accounts_and_names_its_cause(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books, cause=Cause("event", 41)) as tx:
        journal = await post(tx, sale(), key="sale:1", memo="order 1")
        assert (await balance(tx, "cash", currency="EUR")).balance == 1200
        assert (await balance(tx, "revenue", currency="EUR")).balance == 1000
        assert (await balance(tx, "cash", currency="USD")).balance == 0
    assert journal.fresh
    row = await db.fetchrow("select * from onceward.ledger_journals where id = $1", journal.id)
    assert row is not None
    assert (row["caused_by"], row["entries"], row["total"], row["organization_id"]) == (41, 2, 1200, books)
    await _clean(db)


async def test_the_same_key_with_the_same_body_is_the_same_journal(db: Database, books: UUID) -> None:
    async def once() -> tuple[int, bool]:
        async with db.transaction(organization=books) as tx:
            journal = await post(tx, sale(), key="sale:1")
            return journal.id, journal.fresh

    results = await asyncio.gather(*(once() for _ in range(8)))
    assert len({journal_id for journal_id, _ in results}) == 1
    assert sum(fresh for _, fresh in results) == 1
    assert await _balance(db, books, "cash") == 1200


@pytest.mark.parametrize(
    ("entries", "options"),
    [
        (sale(1001), {}),
        (sale()[:1], {}),
        (list(reversed(sale())), {}),
        (sale(), {"memo": "other"}),
        (sale(), {"pending": True}),
    ],
)
async def test_the_same_key_with_another_body_is_a_conflict(
    db: Database, books: UUID, entries: list[Entry], options: dict[str, Any]
) -> None:
    async with db.transaction(organization=books) as tx:
        await post(tx, sale(), key="sale:1")
    with pytest.raises(KeyConflict, match="sale:1"):
        async with db.transaction(organization=books) as tx:
            await post(tx, entries, key="sale:1", **options)
    assert await _balance(db, books, "cash") == 1200


async def test_a_key_belongs_to_its_organization(db: Database, books: UUID) -> None:
    other = uuid.uuid4()
    async with db.transaction(organization=other) as tx:
        await open_account(tx, "cash", currency="EUR", kind="asset")
        await open_account(tx, "revenue", currency="EUR", kind="revenue")
        await post(tx, [Entry("cash", "revenue", 7, "EUR")], key="sale:1")
    async with db.transaction(organization=books) as tx:
        assert (await post(tx, sale(), key="sale:1")).fresh
    assert await _balance(db, other, "cash") == 7


@pytest.mark.parametrize("amount", [0, -1, 2**53, 2**63, 10**30, 1.0, 1.5, float("nan"), "1", True, None])
def test_an_amount_that_is_not_a_positive_whole_number_in_range_is_refused(amount: Any) -> None:
    with pytest.raises(InvalidEntry, match="amount"):
        Entry("cash", "revenue", amount, "EUR")


@pytest.mark.parametrize(
    ("debit", "credit", "currency"),
    [("cash", "cash", "EUR"), ("", "cash", "EUR"), ("cash", "a b", "EUR"), ("cash", "x", "eur"), ("cash", "x", "EURO")],
)
def test_an_entry_that_names_no_two_accounts_or_no_currency_is_refused(debit: str, credit: str, currency: str) -> None:
    with pytest.raises(InvalidEntry):
        Entry(debit, credit, 1, currency)


async def test_an_account_that_is_not_open_in_that_currency_is_named(db: Database, books: UUID) -> None:
    with pytest.raises(UnknownAccount, match="revenue in USD"):
        async with db.transaction(organization=books) as tx:
            await post(tx, [*sale(), Entry("cash", "revenue", 5, "USD")], key="k")
    assert await _balance(db, books, "cash") == 0


async def test_nothing_to_post_and_no_key_are_refused(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as tx:
        with pytest.raises(InvalidEntry, match="no entries"):
            await post(tx, [], key="k")
        with pytest.raises(InvalidEntry, match="key"):
            await post(tx, sale(), key="")
    with pytest.raises(LedgerError, match="no organization"):
        async with db.transaction() as tx:
            await post(tx, sale(), key="k")


async def test_an_account_is_found_again_but_never_changed(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as tx:
        first = await open_account(tx, "cash", currency="EUR", kind="asset")
        assert first == await open_account(tx, "cash", currency="EUR", kind="asset")
    with pytest.raises(AccountDiffers, match="asset"):
        async with db.transaction(organization=books) as tx:
            await open_account(tx, "cash", currency="EUR", kind="revenue")
    for change in ("kind = 'revenue'", "currency = 'USD'", "bounded = true", "organization_id = gen_random_uuid()"):
        with pytest.raises(asyncpg.PostgresError, match="keeps its code"):
            await db.execute(f"update onceward.ledger_accounts set {change}")
    with pytest.raises(asyncpg.PostgresError, match="keeps its code"):
        await db.execute("delete from onceward.ledger_accounts")


@pytest.mark.parametrize("table", ["ledger_entries", "ledger_journals"])
async def test_not_even_the_owner_changes_what_was_posted(db: Database, books: UUID, table: str) -> None:
    async with db.transaction(organization=books) as tx:
        await post(tx, sale(), key="sale:1")
    for statement in (
        f"update onceward.{table} set organization_id = organization_id",
        f"delete from onceward.{table}",
        f"truncate onceward.{table} cascade",
    ):
        with pytest.raises(asyncpg.PostgresError, match="append-only"):
            await db.execute(statement)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with db.transaction(organization=books) as tx:
                await tx.execute(statement)


async def test_an_app_cannot_write_entries_past_the_functions(db: Database, books: UUID) -> None:
    for table in ("accounts", "journals", "entries", "pending", "drawn", "bounds", "checkpoints"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with db.transaction(organization=books) as tx:
                await tx.execute(f"insert into onceward.ledger_{table} default values")


async def test_entries_across_organizations_or_currencies_break_a_constraint(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as tx:
        journal = await post(tx, sale(), key="sale:1")
    other = uuid.uuid4()
    async with db.transaction(organization=other) as tx:
        theirs = await open_account(tx, "cash", currency="EUR", kind="asset")
    euro, dollar, revenue = [
        await db.fetchval(
            "select id from onceward.ledger_accounts where organization_id = $1 and code = $2 and currency = $3", *found
        )
        for found in ((books, "cash", "EUR"), (books, "cash", "USD"), (books, "revenue", "EUR"))
    ]
    insert = """insert into onceward.ledger_entries
        (journal_id, organization_id, debit_id, credit_id, amount, currency, pending)
        values ($1, $2, $3, $4, $5, $6, false)"""
    for row in (
        (journal.id, books, theirs.id, revenue, 1, "EUR"),
        (journal.id, books, dollar, revenue, 1, "EUR"),
        (journal.id, books, euro, revenue, 1, "USD"),
        (journal.id, other, theirs.id, theirs.id + 1, 1, "EUR"),
    ):
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await db.execute(insert, *row)
    for row in ((journal.id, books, euro, euro, 1, "EUR"), (journal.id, books, euro, revenue, 0, "EUR")):
        with pytest.raises(asyncpg.CheckViolationError):
            await db.execute(insert, *row)


async def test_organizations_do_not_see_each_others_books(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as tx:
        journal = await post(tx, sale(), key="sale:1")
    async with db.transaction(organization=uuid.uuid4()) as tx:
        for table in ("accounts", "journals", "entries", "balances", "bounds"):
            assert await tx.fetchval(f"select count(*) from onceward.ledger_{table}") == 0
    with pytest.raises(UnknownJournal):
        async with db.transaction(organization=uuid.uuid4()) as tx:
            await reverse(tx, journal.id, key="r")


async def test_a_full_reversal_brings_every_account_back(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as tx:
        journal = await post(tx, sale(), key="sale:1")
        first = await reverse(tx, journal.id, key="refund:1")
        again = await reverse(tx, journal.id, key="refund:1")
    assert (again.id, again.fresh) == (first.id, False)
    assert [await _balance(db, books, code) for code in ("cash", "revenue", "tax")] == [0, 0, 0]
    with pytest.raises(OverDrawn, match="nothing is left"):
        async with db.transaction(organization=books) as tx:
            await reverse(tx, journal.id, key="refund:2")
    with pytest.raises(NotPossible, match="cannot be reversed"):
        async with db.transaction(organization=books) as tx:
            await reverse(tx, first.id, key="refund:3")
    with pytest.raises(KeyConflict):
        async with db.transaction(organization=books) as tx:
            await reverse(tx, journal.id, key="sale:1")
    await _clean(db)


async def test_partial_reversals_are_bounded_by_the_original(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as tx:
        one = await post(tx, [Entry("cash", "revenue", 1000, "EUR")], key="sale:1")
        await reverse(tx, one.id, key="refund:1", amount=400)
        two = await post(tx, sale(), key="sale:2")
        net, tax = await _entries_in(tx, two.id)
        await reverse(tx, two.id, key="refund:2", entries=[Part(net, 500), Part(tax, 100)])
    for bad in (601, 1000):
        with pytest.raises(OverDrawn, match="600 left of 1000"):
            async with db.transaction(organization=books) as tx:
                await reverse(tx, one.id, key="refund:3", amount=bad)
    with pytest.raises(OverDrawn, match="is not of journal"):
        async with db.transaction(organization=books) as tx:
            await reverse(tx, one.id, key="refund:3", entries=[Part(net, 1)])
    async with db.transaction(organization=books) as tx:
        with pytest.raises(NotPossible, match="several entries"):
            await reverse(tx, two.id, key="refund:3", amount=5)
        with pytest.raises(InvalidEntry, match="twice"):
            await reverse(tx, two.id, key="refund:3", entries=[Part(net, 1), Part(net, 1)])
        await reverse(tx, one.id, key="refund:4")
        await reverse(tx, two.id, key="refund:5")
    assert [await _balance(db, books, code) for code in ("cash", "revenue", "tax")] == [0, 0, 0]
    await _clean(db)


async def _entries_in(tx: Any, journal_id: int) -> list[int]:
    rows = await tx.fetch("select id from onceward.ledger_entries where journal_id = $1 order by id", journal_id)
    return [row["id"] for row in rows]


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
async def test_refunds_at_the_same_time_never_exceed_what_was_paid(db: Database, books: UUID, isolation: str) -> None:
    async with db.transaction(organization=books) as tx:
        journal = await post(tx, [Entry("cash", "revenue", 1000, "EUR")], key="sale:1")

    async def refund(number: int) -> bool:
        try:
            async with db.transaction(organization=books) as tx:
                await tx.execute(f"set transaction isolation level {isolation}")
                await reverse(tx, journal.id, key=f"refund:{number}", amount=300)
        except (OverDrawn, asyncpg.SerializationError):
            return False
        return True

    done = sum(await asyncio.gather(*(refund(number) for number in range(8))))
    assert 1 <= done <= 3
    assert done == 3 or isolation != "read committed"
    assert await _balance(db, books, "cash") == 1000 - 300 * done
    await _clean(db)


async def test_a_reversal_written_past_the_functions_is_bounded_and_must_mirror(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as tx:
        journal = await post(tx, [Entry("cash", "revenue", 1000, "EUR")], key="sale:1")
        refund = await reverse(tx, journal.id, key="refund:1", amount=400)
    row = await db.fetchrow("select * from onceward.ledger_entries where journal_id = $1", journal.id)
    assert row is not None
    insert = """insert into onceward.ledger_entries (journal_id, organization_id, debit_id, credit_id, amount, currency,
        pending, origin) values ($1, $2, $3, $4, $5, 'EUR', false, $6)"""
    with pytest.raises(asyncpg.CheckViolationError, match="ledger_not_overdrawn"):
        await db.execute(insert, refund.id, books, row["credit_id"], row["debit_id"], 601, row["id"])
    with pytest.raises(asyncpg.PostgresError, match="mirror"):
        await db.execute(insert, refund.id, books, row["debit_id"], row["credit_id"], 1, row["id"])


async def test_what_is_pending_moves_no_balance_until_it_is_settled(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as tx:
        held = await post(tx, [Entry("cash", "revenue", 1000, "EUR")], key="auth:1", pending=True)
        now = await balance(tx, "cash", currency="EUR")
        assert (now.balance, now.pending_debits) == (0, 1000)
        settled = await settle(tx, held.id, key="capture:1", amount=700)
        assert (await settle(tx, held.id, key="capture:1", amount=700)).id == settled.id
        now = await balance(tx, "cash", currency="EUR")
        assert (now.balance, now.pending_debits) == (700, 0)
        await reverse(tx, settled.id, key="refund:1", amount=700)
    assert await _balance(db, books, "cash") == 0
    await _clean(db)


async def test_a_pending_journal_ends_once(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as tx:
        held = await post(tx, sale(), key="auth:1", pending=True)

    async def end(number: int) -> str:
        try:
            async with db.transaction(organization=books) as tx:
                if number % 2:
                    await settle(tx, held.id, key=f"end:{number}")
                    return "settled"
                await void(tx, held.id, key=f"end:{number}")
                return "voided"
        except NotPossible as refused:
            return str(refused)

    ends = await asyncio.gather(*(end(number) for number in range(8)))
    assert sum("has ended already" in end for end in ends) == 7
    assert await _balance(db, books, "cash") == (1200 if "settled" in ends else 0)
    with pytest.raises(NotPossible, match="is pending: void it"):
        async with db.transaction(organization=books) as tx:
            await reverse(tx, held.id, key="r")
    await _clean(db)


async def test_settling_more_than_is_pending_is_refused(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as tx:
        held = await post(tx, [Entry("cash", "revenue", 1000, "EUR")], key="auth:1", pending=True)
        posted = await post(tx, [Entry("cash", "revenue", 1, "EUR")], key="sale:1")
    with pytest.raises(OverDrawn):
        async with db.transaction(organization=books) as tx:
            await settle(tx, held.id, key="capture:1", amount=1001)
    with pytest.raises(NotPossible, match="not pending"):
        async with db.transaction(organization=books) as tx:
            await void(tx, posted.id, key="void:1")


async def test_a_bounded_account_never_falls_below_zero(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as tx:
        await post(tx, [Entry("cash", "wallet", 1000, "EUR")], key="top-up")

    async def spend(number: int) -> str:
        try:
            async with db.transaction(organization=books) as tx:
                await post(tx, [Entry("wallet", "revenue", 300, "EUR")], key=f"spend:{number}")
        except Insufficient as refused:
            return str(refused)
        return "spent"

    spent = await asyncio.gather(*(spend(number) for number in range(8)))
    assert spent.count("spent") == 3
    assert set(spent) == {"spent", "account wallet has 100 EUR, 300 is needed"}
    assert await _balance(db, books, "wallet") == 100
    await _clean(db)


async def test_what_is_pending_against_a_bounded_account_is_reserved(db: Database, books: UUID) -> None:
    async with db.transaction(organization=books) as tx:
        await post(tx, [Entry("cash", "wallet", 1000, "EUR")], key="top-up")
        one = await post(tx, [Entry("wallet", "revenue", 600, "EUR")], key="auth:1", pending=True)
        assert (await balance(tx, "wallet", currency="EUR")).available == 400
    for pending in (True, False):
        with pytest.raises(Insufficient):
            async with db.transaction(organization=books) as tx:
                await post(tx, [Entry("wallet", "revenue", 401, "EUR")], key="auth:2", pending=pending)
    async with db.transaction(organization=books) as tx:
        await settle(tx, one.id, key="capture:1", amount=500)
        assert (await balance(tx, "wallet", currency="EUR")).available == 500
        two = await post(tx, [Entry("wallet", "revenue", 500, "EUR")], key="auth:3", pending=True)
        await void(tx, two.id, key="void:3")
        await post(tx, [Entry("wallet", "revenue", 500, "EUR")], key="spend:4")
    with pytest.raises(Insufficient):
        async with db.transaction(organization=books) as tx:
            top_up = await tx.fetchval("select id from onceward.ledger_journals where key = 'top-up'")
            await reverse(tx, top_up, key="chargeback")
    await _clean(db)
