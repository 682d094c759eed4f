"""What is true after a sale: one test for each postcondition."""

from __future__ import annotations

from tests.ticketing.office import Office, charge


async def test_a_paid_checkout_becomes_tickets_entries_and_a_reply(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2")
    payload = charge(checkout)

    told = await office.webhook(payload)

    assert told.status == 200
    assert told.json == {
        "status": "ok",
        "message": "Checkout completed successfully",
        "checkout_id": str(checkout["id"]),
        "ticket_count": 2,
        "payment_reference": payload["id"],
    }
    assert await office.status(checkout) == "completed"
    assert len(await office.tickets(checkout)) == 2
    assert await office.balance(show, "cash") == checkout["total_cents"]
