"""Opening payment pages: one at a time, each with its own expiry and key, and a reason if none can be opened."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from structlog.testing import capture_logs

from onceward.integrations.stripe.payments import StripePayments
from onceward.services import service_settings
from onceward_apps.ticketing import baskets, checkout_payments
from onceward_apps.ticketing.errors import CurrencyNotTaken, NotPayable
from onceward_apps.ticketing.event_setup import Section
from tests.ticketing.office import Office, Show


async def opened(office: Office, checkout: Any, provider: Any = "stripe") -> checkout_payments.Opened:
    return await checkout_payments.open_payment(office.engine, checkout["organization_id"], checkout["id"], provider)


def sessions(office: Office) -> list[Any]:
    return list(office.stripe.books.sessions.values())


async def test_a_page_opened_late_in_the_checkout_is_accepted_by_stripe(office: Office) -> None:
    """Stripe wants an expiry at least half an hour ahead, counted from the opening and not from the start."""
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    await office.db.execute("update ticketing.checkouts set started_at = started_at - interval '12 minutes'")
    await opened(office, checkout)
    [session] = sessions(office)
    assert session["expires_at"] >= time.time() + 30 * 60


async def test_the_simulator_refuses_an_expiry_of_less_than_half_an_hour(office: Office) -> None:
    price = {"currency": "eur", "unit_amount": 100}
    made = await (await office.app.services.stripe(None)).create_checkout_session(
        key="k1",
        line_items=[{"price_data": price}],
        success_url="https://shop.example",
        cancel_url="https://shop.example",
        expires_at=int(time.time()) + 29 * 60,
    )
    assert "at least 30 minutes" in str(made)


async def test_asking_again_returns_the_page_that_is_open(office: Office) -> None:
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    first = await opened(office, checkout)
    assert await opened(office, checkout) == first
    assert len(sessions(office)) == 1


async def test_requests_at_once_open_one_page(office: Office) -> None:
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    found = await asyncio.gather(*(opened(office, checkout) for _ in range(6)))
    assert len({each.url for each in found}) == 1
    assert len(sessions(office)) == 1


async def test_turning_to_the_other_service_closes_the_older_page(office: Office) -> None:
    show = await office.show(currency="EUR")
    checkout = await office.checkout(show, "Stalls A1")
    await opened(office, checkout)
    found = await opened(office, checkout, "paypal")
    assert found.provider == "paypal"
    await office.drain()
    assert sessions(office)[0]["status"] == "expired"


async def test_an_order_that_is_paid_leads_to_its_page_instead_of_another_payment(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    await opened(office, checkout)
    office.stripe.pay(sessions(office)[0]["id"])
    await office.deliver()
    with pytest.raises(baskets.CheckoutClosed, match="completed"):
        await opened(office, checkout)


async def test_a_checkout_given_up_while_its_page_opens_leaves_no_open_page(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    open_page = StripePayments.open

    async def given_up_meanwhile(*arguments: Any, **options: Any) -> Any:
        outcome = await open_page(*arguments, **options)
        async with office.engine.transaction(organization=show.organization) as tx:
            await baskets.abandon(tx, checkout["id"])
        return outcome

    monkeypatch.setattr(StripePayments, "open", given_up_meanwhile)
    with pytest.raises(NotPayable):
        await opened(office, checkout)
    await office.drain()
    assert [session["status"] for session in sessions(office)] == ["expired"]


# -- a service that refuses ----------------------------------------------------------------------------------------


async def wrong_key(office: Office) -> Show:
    show = await office.show(currency="EUR", support_contact="help@hall.example")
    settings = office.app.services.settings.using(service_settings("stripe", secret_key="sk_test_invalid"))
    office.app.services.configure(settings)
    return show


async def test_a_refused_key_is_logged_the_staff_is_notified_and_the_buyer_sees_what_to_do(office: Office) -> None:
    show = await wrong_key(office)
    checkout = await office.checkout(show, "Stalls A1")
    with capture_logs() as logs, pytest.raises(NotPayable) as refused:
        await opened(office, checkout)
    [entry] = [each for each in logs if each["event"] == "payment.page_refused"]
    assert (entry["provider"], entry["reason"]) == ("stripe", "HTTP 401: invalid_request_error")
    [notice] = await office.notices()
    assert (notice["type"], notice["details"]["reason"]) == ("PAYMENT_SERVICE_REFUSED", entry["reason"])
    said = str(refused.value)
    for part in ("trying again will not help", "You can pay with PayPal", "help@hall.example", "held until"):
        assert part in said
    assert "sk_test" not in f"{logs} {notice} {said}"


@pytest.mark.parametrize("status", [401, 404])
async def test_staff_is_notified_of_every_permanent_refusal(office: Office, status: int) -> None:
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    office.stripe.fail_next(status=status)
    with pytest.raises(NotPayable, match="will not help"):
        await opened(office, checkout)
    [notice] = await office.notices()
    assert f"HTTP {status}" in notice["details"]["reason"]


async def test_an_outage_asks_the_buyer_to_try_again_and_wakes_nobody(office: Office) -> None:
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    office.stripe.fail_next(status=503)
    with capture_logs() as logs, pytest.raises(NotPayable, match="try again"):
        await opened(office, checkout)
    assert [each["reason"] for each in logs if each["event"] == "payment.page_refused"] == ["HTTP 503: api_error"]
    assert await office.notices() == []
    assert (await opened(office, checkout)).provider == "stripe"


async def test_a_service_that_does_not_take_the_currency_is_not_called(office: Office) -> None:
    show = await office.show(currency="KWD", sections=(Section(name="Hall", price_cents=5120, rows={"A": 1}),))
    checkout = await office.checkout(show, "Hall A1")
    with pytest.raises(CurrencyNotTaken, match="PayPal does not accept KWD"):
        await opened(office, checkout, "paypal")
    assert office.paypal.received == []
