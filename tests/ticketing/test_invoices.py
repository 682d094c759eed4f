"""Invoices and credit notes: frozen, with numbers without gaps, and the sale does not wait for the counter."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.testing import Crash
from onceward.trust import verify
from onceward_apps.ticketing import after_sale, checks, invoice_book, invoice_pdf
from onceward_apps.ticketing.errors import TooMany
from onceward_apps.ticketing.event_setup import Section
from onceward_apps.ticketing.model import Policy
from tests.ticketing.crashing import CrashAt, install
from tests.ticketing.office import Office
from tests.ticketing.test_edge_cases import paid_at_stripe


async def numbers(office: Office, organization: UUID) -> list[int]:
    rows = await office.db.fetch(
        "select number from ticketing.invoices where organization_id = $1 order by number", organization
    )
    return [row["number"] for row in rows]


def wanted(*checkout_ids: UUID) -> list[dict[str, Any]]:
    return [{"checkout_id": str(id)} for id in checkout_ids]


async def documents(office: Office, checkout: Any) -> list[Any]:
    await office.drain()
    return await office.db.fetch(
        "select * from ticketing.invoices where checkout_id = $1 order by number", checkout["id"]
    )


async def test_each_sale_gets_the_next_number_of_its_organization(office: Office) -> None:
    await office.source()
    first, second = await office.show(slug="first"), await office.show(slug="second")
    for show, labels in ((first, ("Stalls A1", "Stalls A2", "Stalls A3")), (second, ("Stalls A1",))):
        for label in labels:
            assert (await office.pay(await office.checkout(show, label))).status == 200
    await office.drain()
    assert await numbers(office, first.organization) == [1, 2, 3]
    assert await numbers(office, second.organization) == [1]
    async with office.engine.transaction(organization=first.organization) as tx:
        ids = [row["checkout_id"] for row in await tx.fetch("select checkout_id from ticketing.invoices")]
        assert await invoice_book.issue(tx, wanted(*ids)) == 0, "a repeat gave a second number"
    assert all(found.ok for found in await verify(office.db, checks.CHECKS))


async def test_a_batch_that_rolls_back_leaves_no_gap(office: Office) -> None:
    await office.source()
    show = await office.show()
    paid = [await office.checkout(show, f"Stalls A{n}") for n in (1, 2)]
    for checkout in paid:
        await office.pay(checkout)
    with pytest.raises(RuntimeError, match="the batch fails"):
        async with office.engine.transaction(organization=show.organization) as tx:
            assert await invoice_book.issue(tx, wanted(paid[0]["id"])) == 1
            raise RuntimeError("the batch fails")
    await office.drain()
    assert await numbers(office, show.organization) == [1, 2]


async def test_a_batch_that_is_cut_at_any_statement_leaves_no_gap(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    await office.pay(checkout)
    refund = {"checkout_id": str(checkout["id"]), "refund_id": str(uuid4()), "amount_cents": 100}
    n = 0
    for n in range(1, 100):
        with pytest.MonkeyPatch.context() as patch:
            install(patch, CrashAt(n))
            try:
                async with office.engine.transaction(organization=show.organization) as tx:
                    assert await invoice_book.issue(tx, [refund]) == 2
            except Crash:
                assert await numbers(office, show.organization) == []
                continue
        break
    assert n > 5
    await office.drain()
    assert await numbers(office, show.organization) == [1, 2]
    async with office.engine.transaction(organization=show.organization) as tx:
        assert await invoice_book.issue(tx, [refund]) == 0


async def test_a_sale_does_not_wait_for_a_batch_that_holds_the_counter(office: Office) -> None:
    await office.source()
    show = await office.show()
    sold = await office.checkout(show, "Stalls A1")
    await office.pay(sold)
    waiting = await office.checkout(show, "Stalls A2")
    async with office.engine.transaction(organization=show.organization) as tx:
        await invoice_book.issue(tx, wanted(sold["id"]))
        async with asyncio.timeout(10):  # a sale that needs the counter would wait for this transaction
            assert (await office.pay(waiting)).status == 200
    await office.drain()
    assert await numbers(office, show.organization) == [1, 2]


async def test_batches_at_the_same_moment_number_every_sale_once(office: Office) -> None:
    await office.source()
    show = await office.show()
    ids: list[UUID] = []
    for n in range(1, 7):
        checkout = await office.checkout(show, f"Stalls A{n}")
        await office.pay(checkout)
        ids.append(checkout["id"])

    async def batch(chosen: list[UUID]) -> int:
        async with office.engine.transaction(organization=show.organization) as tx:
            return await invoice_book.issue(tx, wanted(*chosen))

    added = await asyncio.gather(batch(ids[:4]), batch(ids[2:]), batch(ids[:1]), batch(ids[5:]))
    assert sum(added) == 6
    assert await numbers(office, show.organization) == [1, 2, 3, 4, 5, 6]


@pytest.mark.acceptance("invoices")
@pytest.mark.parametrize("tax_included", [False, True])
async def test_an_invoice_says_who_sells_and_what_is_taxed_and_never_changes(
    office: Office, tax_included: bool
) -> None:
    await office.source()
    policy = Policy(fee_bps=250, fee_paid_by="buyer", tax_bps=1500, tax_included=tax_included)
    show = await office.show(policy=policy)
    async with office.engine.transaction(organization=show.organization) as tx:
        seller = invoice_book.Seller(name="Riverside (Pty) Ltd", address="1 Quay", tax_id="4012345678", prefix="RS-")
        await invoice_book.set_seller(tx, seller, actor="test")
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2")
    async with office.engine.transaction(organization=show.organization) as tx:
        company = invoice_book.Billing(company="Acme", address="2 Road", tax_id="DE811907980")
        assert await invoice_book.set_billing(tx, checkout["id"], company, actor="buyer") is False
    await office.pay(checkout)
    [row] = await documents(office, checkout)
    document = row["document"]
    assert (document["number"], document["seller"]["tax_id"]) == ("RS-1", "4012345678")
    assert (document["buyer"]["company"], document["buyer"]["tax_id"]) == ("Acme", "DE811907980")
    assert [line["text"] for line in document["lines"]] == ["Night: Stalls A1", "Night: Stalls A2", "Service fee"]
    assert document["total_cents"] == checkout["total_cents"]
    taxed = next(rate for rate in document["rates"] if rate["tax_bps"] == 1500)
    assert taxed["tax_cents"] == checkout["tax_cents"]
    assert taxed["net_cents"] == 50000 - (checkout["tax_cents"] if tax_included else 0)
    async with office.engine.transaction(organization=show.organization) as tx:
        await invoice_book.set_seller(tx, invoice_book.Seller(name="Other"), actor="test")
        await tx.execute("update ticketing.events set name = 'Renamed'")
    assert (await documents(office, checkout))[0]["document"] == document
    assert invoice_pdf.invoice(row).startswith(b"%PDF")
    await office.assert_sound()


@pytest.mark.acceptance("invoices")
async def test_refunds_get_credit_notes_whose_taxes_add_up_to_the_amount(office: Office) -> None:
    await office.source()
    sections = (Section(name="Stalls", price_cents=3333, rows={"A": 8}),)
    show = await office.show(sections=sections, policy=Policy(tax_bps=1900, tax_included=True))
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2", "Stalls A3")
    await office.pay(checkout, payment_intent=await paid_at_stripe(office, checkout))
    for _ in range(3):
        ticket = (await office.tickets(checkout))[0]
        async with office.engine.transaction(organization=show.organization) as tx:
            await after_sale.refund(tx, checkout["id"], tickets=[ticket["id"]], reason="ill", actor="test")
        await office.deliver()
        await office.ask()
    first, *credits = await documents(office, checkout)
    assert first["kind"] == "invoice"
    assert [(row["kind"], row["cancels"]) for row in credits] == [("credit_note", first["number"])] * 3
    for row in credits:
        document = row["document"]
        assert document["about"] == first["document"]["number"]
        assert sum(rate["net_cents"] + rate["tax_cents"] for rate in document["rates"]) == document["total_cents"]
        assert invoice_pdf.invoice(row).startswith(b"%PDF")
    assert sum(row["document"]["total_cents"] for row in credits) == checkout["total_cents"]
    assert [row["number"] for row in (first, *credits)] == [1, 2, 3, 4]
    await office.assert_sound()


@pytest.mark.acceptance("invoices")
async def test_a_corrected_company_credits_the_invoice_and_issues_another_a_few_times(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    await office.pay(checkout)
    await office.drain()

    async def correct(company: str) -> bool:
        async with office.engine.transaction(organization=show.organization) as tx:
            return await invoice_book.set_billing(
                tx, checkout["id"], invoice_book.Billing(company=company), actor="buyer"
            )

    assert await correct("Acme") is True
    assert await correct("Acme") is False
    found = await documents(office, checkout)
    kinds = [(row["kind"], row["document"]["buyer"]["company"]) for row in found]
    assert kinds == [("invoice", ""), ("credit_note", ""), ("invoice", "Acme")]
    assert len({row["document"]["total_cents"] for row in found}) == 1
    for n in range(4):
        await correct(f"Acme {n}")
        await office.drain()
    with pytest.raises(TooMany):
        await correct("Once more")
    assert await numbers(office, show.organization) == list(range(1, 12))
    await office.assert_sound()


def test_credits_of_any_amount_add_up_to_the_invoice() -> None:
    lines = [
        invoice_book.Line("A", 1000, 1900, 190),
        invoice_book.Line("B", 333, 700, 23),
        invoice_book.Line("Fee", 50, 0, 0),
    ]
    order = {
        "seller": {},
        "buyer": {},
        "event": {"name": "Night"},
        "order_id": "1",
        "currency": "EUR",
        "paid_with": "x",
        "jurisdiction": "",
    }
    invoice = {**order, "number": "1", **invoice_book._sums(lines)}  # pyright: ignore[reportPrivateUsage]
    for amount in (1, 2, 3, 797, 1595, invoice["total_cents"]):
        credit = invoice_book.credit(invoice, amount)
        assert credit["total_cents"] == amount
        assert all(rate["net_cents"] >= 0 and rate["tax_cents"] >= 0 for rate in credit["rates"]), credit
    issued: list[dict[str, Any]] = [{"kind": "invoice", "document": invoice}]
    for amount in (170, 170, 170, 170, 170, 170, 576):  # each part is rounded, and the last one has the rest
        left = invoice_book._left(issued)  # pyright: ignore[reportPrivateUsage]
        issued.append({"kind": "credit_note", "document": invoice_book.credit(invoice, amount, left=left)})
    assert all(
        rate["net_cents"] == rate["tax_cents"] == 0
        for rate in invoice_book._left(issued)  # pyright: ignore[reportPrivateUsage]
    )
