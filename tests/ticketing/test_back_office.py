"""Orders in the back office: found by name, email and code, sent again, corrected, refunded."""

from __future__ import annotations

from typing import Any

import pytest

from onceward_apps.ticketing import after_sale, back_office
from onceward_apps.ticketing.desk.lists import ORDERS, TICKETS
from onceward_apps.ticketing.errors import CheckoutClosed, NotRefundable
from tests.ticketing.office import Office, Show

Sold = tuple[Office, Show, Any]
MAILS = (
    "select address, data->>'order_url' as url from onceward.messages where template = 'order-confirmation' order by id"
)


@pytest.fixture
async def sold(office: Office) -> Sold:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2")
    assert (await office.pay(checkout)).status == 200
    return office, show, checkout


@pytest.mark.acceptance("back-office")
async def test_the_mail_is_sent_again_once_a_minute(sold: Sold) -> None:
    office, show, checkout = sold
    async with office.engine.transaction(organization=show.organization) as tx:
        assert await back_office.send_again(tx, checkout["id"], actor="test") == "buyer@example.org"
    async with office.engine.transaction(organization=show.organization) as tx:
        with pytest.raises(CheckoutClosed, match="less than a minute"):
            await back_office.send_again(tx, checkout["id"], actor="test")
    assert [row["address"] for row in await office.db.fetch(MAILS)] == ["buyer@example.org"] * 2


@pytest.mark.acceptance("back-office")
async def test_a_corrected_address_gets_the_tickets_and_the_old_links_end(sold: Sold) -> None:
    office, show, checkout = sold
    given, kept = await office.tickets(checkout)
    async with office.engine.transaction(organization=show.organization) as tx:
        await after_sale.transfer(tx, given["id"], email="friend@example.org", name="Sipho", actor="buyer")
        assert await back_office.correct_buyer(tx, checkout["id"], email="right@example.org", name="T", actor="test")
        assert not await back_office.correct_buyer(tx, checkout["id"], email="right@example.org", name="T", actor="x")
    first, second = await office.db.fetch(MAILS)
    assert (first["address"], second["address"]) == ("buyer@example.org", "right@example.org")
    assert first["url"] != second["url"]
    holders = {row["id"]: row["holder_email"] for row in await office.tickets(checkout)}
    assert holders.pop(kept["id"]) == "right@example.org"
    assert list(holders.values()) == ["friend@example.org"]
    log = await office.db.fetchval(
        "select changes::text from onceward.audit_log where action = 'order_email_corrected'"
    )
    assert "@" not in log


@pytest.mark.acceptance("back-office")
async def test_tickets_are_chosen_by_their_codes(sold: Sold) -> None:
    office, show, checkout = sold
    first, _ = await office.tickets(checkout)
    async with office.engine.transaction(organization=show.organization) as tx:
        code = first["ticket_code"].lower().replace("-", " ")
        assert await back_office.tickets_by_code(tx, checkout["id"], [code]) == [first["id"]]
        with pytest.raises(NotRefundable, match="no ticket nonsense"):
            await back_office.tickets_by_code(tx, checkout["id"], ["nonsense"])


@pytest.mark.acceptance("back-office")
@pytest.mark.parametrize("listing", [ORDERS, TICKETS], ids=lambda each: each.name)
async def test_the_search_of_a_list_has_its_index(office: Office, listing: Any) -> None:
    async with office.db.transaction(role="engine") as tx:
        await tx.execute("set local enable_seqscan = off")
        plan = await tx.fetch(
            f"explain select from ticketing.{listing.rows.split()[0].partition('.')[2]} r"
            f" where {listing.words} @@ to_tsquery('simple', 'thandi:*')"
        )
    assert "_words" in "".join(row[0] for row in plan), plan


async def test_times_in_the_mail_are_those_at_the_venue(office: Office) -> None:
    await office.source()
    show = await office.show()
    await office.db.execute("update ticketing.venues set timezone = 'Africa/Johannesburg'")
    assert (await office.pay(await office.checkout(show, "Stalls A1"))).status == 200
    assert await office.db.fetchval("select timezone from onceward.messages") == "Africa/Johannesburg"
