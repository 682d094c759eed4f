"""For accountants: taxes by rate and jurisdiction, trial balance of a date, closed periods, entries, settlements."""

from __future__ import annotations

import csv
import io
from datetime import date, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from onceward import ledger
from onceward.ledger import entry_file
from onceward.ledger.accounts import STATEMENT
from onceward_apps.ticketing import after_sale, invoice_pdf, settlements
from onceward_apps.ticketing.errors import Exists, Invalid
from onceward_apps.ticketing.event_setup import NewEvent, Section, add_event, add_venue
from onceward_apps.ticketing.jurisdictions import SouthAfrica, jurisdictions, rule_of
from onceward_apps.ticketing.model import Policy
from onceward_apps.ticketing.routes.books import entries
from onceward_apps.ticketing.store import books as accounting
from onceward_apps.ticketing.store import invoices
from tests.ticketing.office import Office, Show


async def sell(office: Office, show: Show, *seats: str) -> Any:
    """An order that was paid at the simulated Stripe."""
    checkout = await office.checkout(show, *seats)
    office.stripe.pay(await office.open_page(show, checkout))
    await office.deliver()
    assert await office.status(checkout) == "completed"
    return checkout


@pytest.mark.acceptance("accountant")
async def test_a_trial_balance_of_a_date_leaves_out_what_came_later_and_a_period_freezes_it(office: Office) -> None:
    await office.source()
    show = await office.show(policy=Policy(tax_bps=1500, fee_bps=250))
    first = await sell(office, show, "Stalls A1")
    await office.later(days=20)
    between = await office.db.fetchval("select onceward.now() - interval '10 days'")
    second = await sell(office, show, "Stalls A2")
    async with office.engine.transaction(organization=show.organization) as tx:
        [then] = await ledger.trial_balance(tx, until=between)
        [now] = await ledger.trial_balance(tx)
        cash = {
            when: next(each.balance for each in book.accounts if each.code == "cash")
            for when, book in (("then", then), ("now", now))
        }
        tax = next(each.balance for each in then.accounts if each.code == "sales_tax_payable")
        assert then.difference == 0
        assert tax == first["tax_cents"]
        assert cash["now"] > cash["then"] > 0
        period = await ledger.close_period(tx, between, note="March", actor="test")
        assert await ledger.close_period(tx, between, actor="other") == period
        with pytest.raises(ledger.NotPossible, match="lies in a closed period"):
            await ledger.close_period(tx, between - timedelta(days=1), actor="test")
        soon = await tx.fetchval("select onceward.now() - interval '5 minutes'")
        with pytest.raises(ledger.NotPossible, match="less than an hour ago"):
            await ledger.close_period(tx, soon, actor="test")
        lines = [text async for text in ledger.export(tx, between, soon + timedelta(days=1), format="csv")]
        rows = list(csv.DictReader(io.StringIO("".join(lines))))
        plain = "".join([text async for text in ledger.export(tx, between, soon + timedelta(days=1), format="journal")])
    taxed = [row for row in rows if row["credit"] == "sales_tax_payable"]
    assert [row["amount"] for row in taxed] == [f"{second['tax_cents'] / 100:.2f}"]
    amounts = [line.split()[-2:] for line in plain.splitlines() if line.startswith("    ")]
    assert len(amounts) == 2 * len(rows)
    assert sum(Decimal(amount) for amount, _ in amounts) == 0
    assert "    Assets:cash  " in plain
    assert f"    Revenue:event_revenue:{show.id}  -" in plain
    await office.assert_sound()
    await office.db.execute(
        "begin; set local session_replication_role = replica;"
        " update onceward.ledger_entries set amount = amount + 1 where id = (select min(id) from onceward.ledger_entries); commit"
    )
    async with office.db.acquire() as conn:
        assert any("ledger.closed_periods_stay" in problem for problem in await ledger.check(conn))


@pytest.mark.acceptance("accountant")
async def test_a_file_of_entries_is_sent_page_by_page_and_holds_no_connection_meanwhile(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_file, "PAGE", 2)
    show = await office.show()
    async with office.engine.transaction(organization=show.organization) as tx:
        for number in range(3):
            await ledger.post(tx, [ledger.Entry("cash", "platform_fee", 100, "EUR")] * 2, key=f"sale {number}")
        now = await tx.fetchval("select onceward.now()")
    who: Any = SimpleNamespace(organization=show.organization)
    answer: Any = await entries(office.engine, who, "csv", now - timedelta(days=1), now + timedelta(days=1))
    pieces: list[str] = []
    async for piece in answer.body_iterator:
        pieces.append(piece)
        in_transaction = (
            "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in%'"
        )
        assert await office.db.fetchval(in_transaction) == 0
    assert [len(piece.splitlines()) for piece in pieces] == [1, 4, 2]  # the heading, and two pages of two journals


@pytest.mark.acceptance("taxes")
async def test_the_rule_of_a_jurisdiction_sets_the_rate_and_taxes_are_summed_by_rate(office: Office) -> None:
    await office.source()
    organization = await office.organization()
    async with office.engine.transaction(organization=organization) as tx:
        now = await tx.fetchval("select onceward.now()")
        venue = await add_venue(tx, "Hall", address="1 Quay", actor="test")
        new = NewEvent(
            venue_id=venue["id"],
            name="Night",
            starts_at=now + timedelta(days=30),
            ends_at=now + timedelta(days=30, hours=3),
            currency="ZAR",
            sections=[Section(name="Stalls", price_cents=11500, rows={"A": 5})],
            policy=Policy(fee_bps=0),
            jurisdiction="ZA",
        )
        event = await add_event(tx, new, actor="test")
        assert (event["tax_bps"], event["tax_included"]) == (1500, True)
        with pytest.raises(Invalid, match="jurisdiction 'XX' is unknown: use one of ZA"):
            rule_of("XX", "standard", date(2031, 1, 1))
        await tx.execute("update ticketing.events set status = 'on_sale'")
    show = Show(organization, event["id"], "ZAR")
    order = await sell(office, show, "Stalls A1", "Stalls A2")
    async with office.engine.transaction(organization=organization) as tx:
        [one, _] = await office.tickets(order)
        await after_sale.refund(tx, order["id"], tickets=[one["id"]], reason="ill", actor="test")
    await office.drain()
    await office.deliver()
    async with office.engine.transaction(organization=organization) as tx:
        since, until = now - timedelta(days=1), now + timedelta(days=1)
        [row] = await accounting.taxes(tx, since, until)
        assert dict(row) == {
            "currency": "ZAR",
            "jurisdiction": "ZA",
            "tax_bps": 1500,
            "net_cents": 10000,
            "tax_cents": 1500,
            "documents": 2,
        }
        assert await accounting.taxes(tx, until, until + timedelta(days=1)) == []
        issued = await invoices.issued(tx, order["id"])
    assert issued[0]["document"]["tax_note"] == "Tax invoice"
    assert invoice_pdf.invoice(issued[0]).startswith(b"%PDF")
    await office.assert_sound()


@pytest.mark.acceptance("taxes")
def test_the_rate_of_south_africa_is_that_of_the_day_and_prices_include_it() -> None:
    assert isinstance(jurisdictions()["ZA"], SouthAfrica)
    assert rule_of("ZA", "standard", date(2018, 3, 31)).bps == 1400
    assert rule_of("ZA", "standard", date(2018, 4, 1)).bps == 1500
    assert rule_of("ZA", "standard", date(2031, 1, 1)).is_included
    assert rule_of("ZA", "unregistered", date(2031, 1, 1)).bps == 0
    with pytest.raises(Invalid, match="category 'x' is not one of standard, unregistered"):
        rule_of("ZA", "x", date(2031, 1, 1))


@pytest.mark.acceptance("settlement")
async def test_a_platform_pays_its_organizer_what_the_payments_brought_less_its_fee_once(office: Office) -> None:
    await office.source()
    show = await office.show(policy=Policy(fee_bps=1000))
    sold = await sell(office, show, "Stalls A1")
    other = await sell(office, show, "Stalls A2")
    async with office.engine.transaction(organization=show.organization) as tx:
        await after_sale.refund(tx, other["id"], reason="ill", actor="test")
    await office.drain()
    await office.deliver()
    until = await office.db.fetchval("select onceward.now()")
    terms: dict[str, Any] = {"currency": "EUR", "actor": "test"}
    with pytest.raises(Invalid, match="less than an hour ago, or to come"):
        await settlements.settle(office.engine, show.organization, until=until, **terms)
    await office.later(hours=1, minutes=1)
    made = await settlements.settle(office.engine, show.organization, until=until, **terms)
    assert (await settlements.settle(office.engine, show.organization, until=until, **terms))["id"] == made["id"]
    held = await office.balance(show, "cash")  # less what Stripe took as its fee
    assert made["statement"]["fee_cents"] == sold["platform_fee_cents"]
    assert made["payout_cents"] == held - sold["platform_fee_cents"]
    [event] = made["statement"]["events"]
    assert (event["payments"], event["received_cents"]) == (2, sold["total_cents"] + other["total_cents"])
    later = await office.db.fetchval("select onceward.now()")
    await office.later(hours=3)
    with pytest.raises(Exists, match="settlement 1 in EUR is not paid yet"):
        await settlements.settle(office.engine, show.organization, until=later, **terms)
    for _ in range(2):
        paid = await settlements.pay_out(office.engine, show.organization, number=1, reference="SEPA 1", **terms)
        assert paid["paid_reference"] == "SEPA 1"
    assert await office.balance(show, "cash") == 0
    assert await office.balance(show, "bank") == made["payout_cents"]
    assert await office.balance(show, "platform_fee") == 0
    with pytest.raises(Exists, match="was paid with the reference 'SEPA 1'"):
        await settlements.pay_out(office.engine, show.organization, number=1, reference="SEPA 2", **terms)
    with pytest.raises(Invalid, match="nothing is to be paid out"):
        await settlements.settle(office.engine, show.organization, until=later, **terms)
    third = await sell(office, show, "Stalls A3")
    last = await office.db.fetchval("select onceward.now()")
    await office.later(hours=5)
    made = await settlements.settle(office.engine, show.organization, until=last, **terms)
    assert (made["number"], made["statement"]["events"][0]["received_cents"]) == (2, third["total_cents"])
    await office.assert_sound()


@pytest.mark.acceptance("settlement")
@pytest.mark.parametrize("fee_paid_by", ["buyer", "organizer"])
async def test_the_fees_of_a_period_are_taken_once_though_its_payout_is_booked_in_the_next(
    office: Office, fee_paid_by: Any
) -> None:
    await office.source()
    show = await office.show(policy=Policy(fee_bps=1000, fee_paid_by=fee_paid_by))
    terms: dict[str, Any] = {"currency": "EUR", "actor": "test"}
    made: list[Any] = []
    sold: list[Any] = []
    # Each period ends before the payout of the one before is booked: two days after it, a day after the next one.
    ends = [await office.db.fetchval("select onceward.now()") + timedelta(days=day) for day in (1, 2, 3)]
    for day in range(len(ends)):
        await office.later(days=day, hours=12)
        sold.append(await sell(office, show, f"Stalls A{day + 1}"))
        if day == 1:  # also what a refund of the first period's order takes away
            async with office.engine.transaction(organization=show.organization) as tx:
                await after_sale.refund(tx, sold[0]["id"], reason="ill", actor="test")
            await office.drain()
            await office.deliver()
            sold.append(await sell(office, show, "Stalls B1"))
    for number, until in enumerate(ends, start=1):
        await office.later(days=9 + number)
        made.append(await settlements.settle(office.engine, show.organization, until=until, **terms))
        await settlements.pay_out(office.engine, show.organization, number=number, reference=f"SEPA {number}", **terms)
    fees = [each["statement"]["fee_cents"] for each in made]
    by_order = [each["platform_fee_cents"] for each in sold]
    assert fees == [by_order[0], by_order[1] + by_order[2] - by_order[0], by_order[3]]
    brought = sum(each["statement"]["cash_cents"] for each in made)
    assert sum(each["payout_cents"] for each in made) == brought - sum(fees)
    assert await office.balance(show, "bank") == brought - sum(fees)
    owed = "platform_fee" if fee_paid_by == "buyer" else "platform_fee_payable"
    assert await office.balance(show, owed) == await office.balance(show, "cash") == 0
    await office.assert_sound()


@pytest.mark.acceptance("settlement")
async def test_an_organizer_cannot_settle_with_itself(office: Office) -> None:
    show = await office.show()
    with pytest.raises(Exception, match="permission denied for table settlements"):
        async with office.engine.transaction(organization=show.organization) as tx:
            await tx.execute(
                "insert into ticketing.settlements (number, currency, until, payout_cents, statement)"
                " values (1, 'EUR', now(), 1, '{}')"
            )


FILL = """
with journals as (
    insert into onceward.ledger_journals (organization_id, key, kind, body, entries, total, memo)
    select $1, 'sale ' || n, 'posted', '\\x00', 1, 100, 'sale' from generate_series(1, $2) n returning id
)
insert into onceward.ledger_entries (journal_id, organization_id, debit_id, credit_id, amount, currency, pending)
select id, $1, $3, $4, 100, 'EUR', false from journals order by id
"""
FOLD = "select onceward.ledger_fold(n, n + 1000) from generate_series(0, $1 - 1000, 1000) n"
HORIZON = "update onceward.ledger_horizon set through = $1, proposed = $1, barrier = null"


def read_of(plan: Any, table: str) -> int:
    """Return how many rows of a table a plan has read, also those that a condition left out."""
    names = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
    here = sum(plan.get(name, 0) for name in names) * plan["Actual Loops"] if plan.get("Relation Name") == table else 0
    return int(here) + sum(read_of(each, table) for each in plan.get("Plans", ()))


@pytest.mark.acceptance("hole-7")
@pytest.mark.parametrize("number", [20_000, pytest.param(300_000, marks=pytest.mark.slow)])
async def test_a_page_of_a_statement_reads_its_lines_and_not_the_whole_account(office: Office, number: int) -> None:
    organization = await office.organization()
    async with office.engine.transaction(organization=organization) as tx:
        cash = await ledger.open_account(tx, "cash", currency="EUR", kind="asset")
        revenue = await ledger.open_account(tx, "revenue", currency="EUR", kind="revenue")
    async with office.db.acquire() as conn:
        await conn.execute(FILL, organization, number, cash.id, revenue.id)
        await conn.execute(FOLD, number)
        await conn.execute(HORIZON, number)
        await conn.execute("analyze onceward.ledger_entries, onceward.ledger_journals, onceward.ledger_marks")
    async with office.engine.transaction(organization=organization) as tx:
        for after in (0, number // 2 + 500, number - 50):
            page = await ledger.statement(tx, "cash", currency="EUR", after=after)
            assert page[-1].balance == 100 * min(after + 100, number)
            explain = f"explain (analyze, buffers, format json) {STATEMENT}"
            [top] = await tx.fetchval(explain, organization, "cash", "EUR", after, 100)
            assert read_of(top["Plan"], "ledger_entries") <= 1_300  # the page, and what came since the last mark
            assert read_of(top["Plan"], "ledger_journals") <= 200
            assert top["Plan"]["Temp Written Blocks"] == 0
    await office.assert_sound()
