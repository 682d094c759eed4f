"""A whole process on a port: organizers over the API, buyers over the API, the simulated payment service, a browser."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import jwt
import pytest
from pydantic import SecretStr

from onceward import Onceward
from onceward.inbox.sources import NewSource, add
from onceward.integrations.paypal import PayPalSimulator
from onceward.integrations.stripe import StripeSimulator
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import load_settings
from onceward.testing import until
from onceward.trust.keys import create_key
from onceward.trust.organizations import create_organization
from onceward.trust.secrets import secret_box
from onceward_apps.ticketing import app as ticketing
from onceward_apps.ticketing.app import TicketingSettings
from tests.browser import CHROMIUM_ARGUMENTS
from tests.ticketing.office import SECRET

PUBLIC = "/api/v1/ticketing/public"
JWT_SECRET = "a secret of the tests with at least 32 bytes"


class Shop:
    """A running process with an organization, its key, and one event on sale."""

    def __init__(self, runtime: Process, stripe: StripeSimulator, paypal: PayPalSimulator) -> None:
        self.runtime = runtime
        self.stripe = stripe
        self.paypal = paypal
        self.key = ""
        self.event_id = ""

    @property
    def url(self) -> str:
        assert self.runtime.web is not None
        return self.runtime.web.url

    async def open(self, folder: Path) -> None:
        async with self.runtime.database.transaction(role="engine") as tx:
            made = await create_organization(tx, "riverside", name="Riverside", actor="test")
            key = await create_key(
                tx, name="door", organization=made.organization_id, scopes=["operator"], actor="test"
            )
            box = secret_box(self.runtime.settings)
            for new in (
                NewSource(name="payments-stripe", provider="stripe", secrets=(SECRET,), mode="inline"),
                NewSource(name="payments-paypal", provider="paypal", mode="inline", options=self.paypal.source_options),
            ):
                await add(tx, box, new, actor="test")
        self.key = key.text
        self.stripe.send_webhooks_to(f"{self.url}/webhooks/payments/stripe", secret=SECRET)
        self.paypal.send_webhooks_to(f"{self.url}/webhooks/payments/paypal")

    async def call(
        self, path: str, body: Any = None, *, staff: bool = False, basket: str = "", method: str = ""
    ) -> Any:
        headers = {"authorization": f"Bearer {self.key}"} if staff else {}
        if basket:
            headers["x-basket"] = basket
        async with aiohttp.ClientSession(self.url) as http:
            how = method or ("GET" if body is None else "POST")
            async with http.request(how, path, json=body, headers=headers) as response:
                assert response.status < 400, (response.status, await response.text())
                return await response.json() if response.content_type == "application/json" else await response.read()

    async def put_on_sale(self) -> None:
        venue = await self.call(
            "/api/v1/ticketing/venues", {"name": "Hall", "timezone": "Africa/Johannesburg"}, staff=True
        )
        starts = datetime.now(UTC) + timedelta(days=20)
        event = await self.call(
            "/api/v1/ticketing/events",
            {
                "venue_id": venue["id"],
                "name": "Open Air Night",
                "starts_at": starts.isoformat(),
                "ends_at": (starts + timedelta(hours=3)).isoformat(),
                "currency": "EUR",
                "tax_bps": 1500,
                "sections": [
                    {"name": "Stalls", "price_cents": 25000, "rows": {"A": 6, "B": 6}},
                    {"name": "Lawn", "price_cents": 9000, "places": 50},
                ],
            },
            staff=True,
        )
        self.event_id = event["id"]
        await self.call(f"/api/v1/ticketing/events/{self.event_id}/status", {"status": "on_sale"}, staff=True)

    async def start(self, seats: int, *, places: int = 0, email: str = "buyer@example.org") -> Any:
        """Hold and check out as a client of the API does."""
        shown = await self.call(f"{PUBLIC}/events/{self.event_id}")
        stalls, lawn = shown["sections"]
        wanted = [f"{stalls['rows'][0]['label']}{n + 1}" for n in range(seats)]
        held = await self.call(
            f"{PUBLIC}/events/{self.event_id}/holds",
            {"seats": wanted, "places": {lawn["id"]: places} if places else {}},
        )
        return await self.call(
            f"{PUBLIC}/checkouts", {"event_id": self.event_id, "email": email}, basket=held["basket"]
        )

    async def pay(self, checkout: Any) -> list[Any]:
        """Pay by card, and return the tickets when they have their QR codes."""
        opened = await self.call(f"{PUBLIC}/checkouts/{checkout['id']}/pay", {"token": checkout["token"]})
        async with aiohttp.ClientSession() as http, http.post(opened["url"], data={"choice": "pay"}) as response:
            assert response.status == 200
            assert str(response.url).startswith(f"{self.url}/orders/{checkout['id']}")
        await self.stripe.webhooks.settle()
        assert all(delivery.statuses == [200] for delivery in self.stripe.webhooks.deliveries)
        query = f"checkout_id={checkout['id']}&token={checkout['token']}"

        async def with_images() -> Any:
            tickets = await self.call(f"/api/tickets?{query}")
            return tickets if all(ticket["qr_code_url"] for ticket in tickets) else None

        return await until(with_images)


@asynccontextmanager
async def opened_shop(
    database_url: str, folder: Path, *, holds_per_minute: int = 60, **options: Any
) -> AsyncIterator[Shop]:
    """A process with simulated payment services; `options` are settings."""
    ticketing.use_settings(TicketingSettings(holds_per_minute=holds_per_minute))
    stripe, paypal = StripeSimulator(), PayPalSimulator()
    await stripe.start()
    await paypal.start()
    settings = load_settings(
        FEATURES.settings,
        database_url=SecretStr(database_url),
        data_dir=folder,
        port=0,
        pool_max=8,
        simulators={"stripe": stripe.url, "paypal": paypal.url},
        poll_interval_ms=100,
        **options,
    )
    app = Onceward("demo")
    app.include(ticketing)
    runtime = Process(app, settings, FEATURES)
    await runtime.start()
    assert runtime.web is not None
    # The port is known only now, and links have to lead to it.
    app.services.configure(settings.model_copy(update={"public_url": runtime.web.url}))
    made = Shop(runtime, stripe, paypal)
    try:
        await made.open(folder)
        await made.put_on_sale()
        yield made
    finally:
        await runtime.stop()
        await stripe.stop()
        await paypal.stop()


@pytest.fixture
async def shop(database_url: str, tmp_path: Path) -> AsyncIterator[Shop]:
    async with opened_shop(database_url, tmp_path) as made:
        yield made


async def test_a_client_of_the_api_buys_by_card_and_gets_its_tickets(shop: Shop) -> None:
    checkout = await shop.start(2, places=1)
    assert checkout["total_cents"] == 59000 + 8850 + 1475
    tickets = await shop.pay(checkout)
    assert sorted(ticket["place"] for ticket in tickets) == ["Lawn", "Stalls A1", "Stalls A2"]
    token = f"?access={checkout['token']}"
    assert (await shop.call(tickets[0]["qr_code_url"] + token)).startswith(b"\x89PNG")
    assert b"BEGIN:VEVENT" in await shop.call(f"/orders/{checkout['id']}/calendar.ics{token}")
    assert (await shop.call(f"/orders/{checkout['id']}/receipt.pdf{token}")).startswith(b"%PDF")
    await shop.call(f"/orders/{checkout['id']}/resend", {"token": checkout["token"]})


def token_of(user: str, organization: UUID) -> str:
    claims = {"sub": user, "organization_id": str(organization), "exp": datetime.now(UTC) + timedelta(hours=1)}
    return jwt.encode(claims, JWT_SECRET, algorithm="HS256")


async def test_a_signed_in_buyer_sees_the_own_order_without_its_token(database_url: str, tmp_path: Path) -> None:
    async with (
        opened_shop(database_url, tmp_path, jwt_secret=SecretStr(JWT_SECRET)) as shop,
        aiohttp.ClientSession(shop.url) as http,
    ):
        shown = await shop.call(f"{PUBLIC}/events/{shop.event_id}")
        held = await shop.call(f"{PUBLIC}/events/{shop.event_id}/holds", {"places": {shown["sections"][1]["id"]: 1}})

        ours = await shop.runtime.database.fetchval("select organization_id from onceward.organizations")

        async def ask(
            method: str, path: str, user: str | None, body: Any = None, *, organization: UUID = ours
        ) -> tuple[int, Any]:
            headers = {"x-basket": held["basket"]}
            if user is not None:
                headers["authorization"] = f"Bearer {token_of(user, organization)}"
            async with http.request(method, path, json=body, headers=headers) as response:
                is_json = response.content_type == "application/json"
                return response.status, await (response.json() if is_json else response.text())

        new = {"event_id": shop.event_id, "email": "ada@example.org"}
        status, checkout = await ask("POST", f"{PUBLIC}/checkouts", "ada", new)
        assert status == 201
        order = f"/orders/{checkout['id']}"
        opened = (await ask("POST", f"{PUBLIC}/checkouts/{checkout['id']}/pay", "ada", {}))[1]
        async with http.post(opened["url"], data={"choice": "pay"}) as response:
            assert response.status == 200
        await shop.stripe.webhooks.settle()
        for path in (f"/api/tickets?checkout_id={checkout['id']}", order, f"{order}/calendar.ics"):
            assert (await ask("GET", path, "ada"))[0] == 200, path
            assert (await ask("GET", path, "eve"))[0] == 404, path
            assert (await ask("GET", path, None))[0] == 404, path
            theirs = await ask("GET", path, "ada", organization=uuid4())
            assert theirs[0] == 404, "another organization may have a user with the same id"
        assert (await ask("POST", f"{order}/resend", "eve", {}))[0] == 404
        assert (await ask("POST", f"{order}/resend", "ada", {}))[0] == 202
        async with http.get(order, headers={"authorization": "Bearer a.b.c"}) as response:
            assert response.status == 401


async def test_a_basket_says_what_the_checkout_will_cost(shop: Shop) -> None:
    shown = await shop.call(f"{PUBLIC}/events/{shop.event_id}")
    row = shown["sections"][0]["rows"][0]
    seat = f"{row['label']}{row['seats']}"
    held = await shop.call(f"{PUBLIC}/events/{shop.event_id}/holds", {"seats": [seat]})
    checkout = await shop.call(
        f"{PUBLIC}/checkouts", {"event_id": shop.event_id, "email": "b@example.org"}, basket=held["basket"]
    )
    assert held["total_cents"] == checkout["total_cents"]
    async with aiohttp.ClientSession(shop.url) as http, http.get("/events") as reply:
        assert reply.content_type == "text/html"
        assert f'href="/events/{shop.event_id}"' in await reply.text()


async def test_a_buyer_approves_at_paypal_and_the_money_is_taken(shop: Shop) -> None:
    checkout = await shop.start(1)
    opened = await shop.call(
        f"{PUBLIC}/checkouts/{checkout['id']}/pay", {"token": checkout["token"], "provider": "paypal"}
    )
    async with aiohttp.ClientSession() as http, http.post(opened["url"], data={"choice": "approve"}) as response:
        assert response.status == 200

    async def completed() -> bool:
        status = "select status from ticketing.checkouts where id = $1"
        return await shop.runtime.database.fetchval(status, checkout["id"]) == "completed"

    await until(completed)
    [capture] = shop.paypal.books.captures.values()
    paid = "select payment_id::text from ticketing.checkouts where id = $1"
    assert capture["custom_id"] == await shop.runtime.database.fetchval(paid, UUID(checkout["id"]))


async def test_nobody_sees_an_order_without_its_token_or_before_it_is_paid(shop: Shop) -> None:
    checkout = await shop.start(1)
    async with aiohttp.ClientSession(shop.url) as http:
        for token, expected in ((checkout["token"], 404), ("WRONG", 404), ("", 404)):
            async with http.get(f"/api/tickets?checkout_id={checkout['id']}&token={token}") as response:
                assert response.status == expected
        async with http.get(f"/orders/{checkout['id']}?access=WRONG") as response:
            assert response.status == 404
        async with http.get(f"/orders/{checkout['id']}?access={checkout['token']}") as response:
            assert response.status == 200
            assert "script-src 'self'" in response.headers["content-security-policy"]
            assert "<script>" not in await response.text()


async def test_only_staff_may_scan_refund_or_change_an_event(shop: Shop) -> None:
    async with aiohttp.ClientSession(shop.url) as http:
        for path in ("events", "venues", "coupons", "scan", f"orders/{uuid4()}/refund", f"tickets/{uuid4()}/void"):
            async with http.post(f"/api/v1/ticketing/{path}", json={}) as response:
                assert response.status == 401, path


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed: apt install chromium")
async def test_a_person_buys_two_seats_another_sees_them_grey_out_and_the_scan_admits_once(shop: Shop) -> None:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)
        try:
            await _buy_and_scan(shop, browser)
        finally:
            await browser.close()


async def _buy_and_scan(shop: Shop, browser: Any) -> None:
    other = await (await browser.new_context()).new_page()
    await other.goto(f"{shop.url}/events/{shop.event_id}")
    await other.get_by_role("button", name="Stalls, row A, seat 1, free").wait_for()

    phone = await browser.new_context(viewport={"width": 390, "height": 844})
    buyer = await phone.new_page()
    problems: list[str] = []
    buyer.on("pageerror", lambda error: problems.append(str(error)))
    buyer.on("console", lambda said: problems.append(said.text) if "Content Security Policy" in said.text else None)
    await buyer.goto(f"{shop.url}/events/{shop.event_id}")
    first = buyer.get_by_role("button", name="Stalls, row A, seat 1, free")
    await first.focus()
    await buyer.keyboard.press("Enter")
    await buyer.get_by_role("button", name="Stalls, row A, seat 1, yours").wait_for()
    await buyer.keyboard.press("ArrowRight")
    await buyer.keyboard.press("Space")
    await buyer.get_by_role("button", name="Stalls, row A, seat 2, yours").wait_for()
    assert (await buyer.locator("#left").inner_text()).startswith(("4:", "5:"))

    for seat in (1, 2):
        await other.get_by_role("button", name=f"Stalls, row A, seat {seat}, held by somebody else").wait_for()

    await buyer.get_by_label("Email address for the tickets").fill("buyer@example.org")
    await buyer.get_by_role("button", name="Continue to payment").click()
    await buyer.get_by_role("button", name="Pay").click()
    await buyer.get_by_text("Order confirmed").wait_for()
    await buyer.locator(".tickets img").nth(1).wait_for()
    codes = await buyer.locator(".tickets .code").all_inner_texts()
    assert len(codes) == 2
    for seat in (1, 2):
        await other.get_by_role("button", name=f"Stalls, row A, seat {seat}, sold").wait_for()
    assert problems == []

    opened = await shop.call(f"/api/v1/ticketing/events/{shop.event_id}/doors", {"name": "North"}, staff=True)
    door = await (await browser.new_context()).new_page()
    await door.goto(opened["url"].replace(opened["url"].partition("/doors/")[0], shop.url))
    await door.get_by_text("2 tickets are on this device").wait_for()
    await door.get_by_label("Ticket code").fill(codes[0].lower())
    await door.get_by_role("button", name="Check", exact=True).click()
    await door.locator(".verdict.yes", has_text="Welcome").wait_for()
    await door.get_by_label("Ticket code").fill(codes[0])
    await door.get_by_role("button", name="Check", exact=True).click()
    await door.locator(".verdict.no", has_text="Already used").wait_for()
    assert "North" in await door.locator("#verdict").inner_text()
