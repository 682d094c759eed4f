"""A transferred ticket belongs to its new holder alone; links to orders expire and can be revoked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest

from onceward.limits import Rate
from onceward.messages import public_forms
from onceward_apps.ticketing.routes import requests
from onceward_apps.ticketing.store.views import LINK_DAYS
from tests.live.conftest import Client
from tests.ticketing.test_http import PUBLIC, Shop, opened_shop

STAFF = "/api/v1/ticketing"


class Door:
    """A shop with a free event, and requests whose status matters."""

    def __init__(self, shop: Shop, http: aiohttp.ClientSession) -> None:
        self.shop, self.http, self.db = shop, http, shop.runtime.database

    async def ask(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        async with self.http.request("GET" if body is None else "POST", path, json=body, headers=headers) as reply:
            is_json = "json" in reply.content_type
            return reply.status, await (reply.json(content_type=None) if is_json else reply.read())

    async def order(self, *, name: str = "", coupon: str | None = None) -> Any:
        sections = (await self.shop.call(f"{PUBLIC}/events/{self.event}"))["sections"]
        held = await self.shop.call(f"{PUBLIC}/events/{self.event}/holds", {"places": {sections[0]["id"]: 1}})
        new = {"event_id": self.event, "email": "buyer@example.org", "name": name, "coupon": coupon}
        return await self.ask(f"{PUBLIC}/checkouts", new, **{"x-basket": held["basket"]})

    async def draft(self) -> str:
        venue = await self.shop.call(f"{STAFF}/venues", {"name": "Garden"}, staff=True)
        starts = datetime.now(UTC) + timedelta(days=20)
        times = {"starts_at": starts.isoformat(), "ends_at": (starts + timedelta(hours=3)).isoformat()}
        sections = [{"name": "Lawn", "price_cents": 0, "places": 50}]
        new = {"venue_id": venue["id"], "name": "Night", "currency": "EUR", "sections": sections, **times}
        self.event: str = (await self.shop.call(f"{STAFF}/events", new, staff=True))["id"]
        return self.event

    async def mailed(self, ticket_id: str) -> dict[str, Any]:
        key = f"ticket:{ticket_id}:transferred"
        return await self.db.fetchval("select data from onceward.messages where key = $1", key)


@pytest.fixture
async def door(database_url: str, tmp_path: Path) -> Any:
    async with opened_shop(database_url, tmp_path) as shop, aiohttp.ClientSession(shop.url) as http:
        door = Door(shop, http)
        await door.draft()
        yield door


async def test_a_transferred_ticket_is_its_new_holders_alone(door: Door) -> None:
    status, _ = await door.ask(f"{PUBLIC}/events/{door.event}")
    assert status == 404, "nobody sees a draft"
    assert (await door.ask(f"/events/{door.event}"))[0] == 404
    await door.shop.call(f"{STAFF}/events/{door.event}/status", {"status": "on_sale"}, staff=True)
    order = (await door.order())[1]
    id, token = order["id"], order["token"]
    await door.shop.call(f"{PUBLIC}/checkouts/{id}/pay", {"token": token})
    tickets = f"/api/tickets?checkout_id={id}&token={token}"
    [ticket] = await door.shop.call(tickets)
    live = await Client.open(f"{door.shop.url.replace('http', 'ws', 1)}/live", None)
    watched = await live.subscribe("ticketing.order", checkout_id=id, token=token)
    await live.until(lambda: watched in live.results)

    new = {"token": token, "email": "sipho@example.org", "name": "Sipho http://evil.example/pay evil.example\r\n"}
    moved = (await door.shop.call(f"/orders/{id}/tickets/{ticket['id']}/transfer", new))["ticket_id"]
    mail = await door.mailed(moved)
    assert mail["name"] == "Sipho evil. example", "no mail program makes a link of it"
    code, secret = mail["code"], mail["ticket_url"].partition("access=")[2]

    # The seller sees that it is gone, and nothing else.
    [shown] = await door.shop.call(tickets)
    assert (shown["status"], shown["id"], shown["ticket_code"] != code) == ("transferred", ticket["id"], True)
    await live.until(lambda: live.results[watched]["tickets"][0]["status"] == "transferred")
    for path in (f"/orders/{id}?access={token}", f"/orders/{id}/calendar.ics?access={token}", tickets):
        status, body = await door.ask(path)
        assert status == 200
        assert code not in str(body)
    assert code not in str(live.frames)
    for path in (
        f"/orders/{id}/tickets/{moved}/qr.png?access={token}",
        f"/orders/{id}/tickets/{ticket['id']}/qr.png?access={token}",
        f"/tickets/{moved}?access={token}",
        f"/tickets/{moved}/qr.png?access={token}",
        f"/tickets/{moved}/qr.png",
        f"/tickets/{ticket['id']}?access={secret}",
        f"/orders/{id}?access={secret}",
    ):
        assert (await door.ask(path))[0] == 404, path
    again = {"token": token, "email": "eve@example.org"}
    assert (await door.ask(f"/orders/{id}/tickets/{moved}/transfer", again))[0] == 404, "the seller does not have it"
    assert (await door.ask(f"/orders/{id}/tickets/{ticket['id']}/transfer", again))[0] == 409
    assert (await door.ask(f"/tickets/{moved}/transfer", again))[0] == 404
    await door.shop.call(f"/orders/{id}/resend", {"token": token})
    assert code not in str(
        await door.db.fetch("select data from onceward.messages where template = 'order-confirmation'")
    )

    # The recipient has a page, a QR code, and may transfer it; three times in all.
    status, page = await door.ask(f"/tickets/{moved}?access={secret}")
    assert status == 200
    assert code in page.decode()
    assert (await door.ask(f"/tickets/{moved}/qr.png?access={secret}"))[1].startswith(b"\x89PNG")
    holder = moved
    for n in (2, 3):
        to = {"token": secret, "email": f"holder{n}@example.org"}
        holder = (await door.shop.call(f"/tickets/{holder}/transfer", to))["ticket_id"]
        secret = (await door.mailed(holder))["ticket_url"].partition("access=")[2]
    status, body = await door.ask(f"/tickets/{holder}/transfer", {"token": secret, "email": "last@example.org"})
    assert (status, "3 times" in body["detail"]) == (409, True)
    await live.close()


async def test_links_to_an_order_are_revoked_at_once_and_expire(door: Door) -> None:
    await door.shop.call(f"{STAFF}/events/{door.event}/status", {"status": "on_sale"}, staff=True)
    order = (await door.order())[1]
    id, token = order["id"], order["token"]
    await door.shop.call(f"{PUBLIC}/checkouts/{id}/pay", {"token": token})
    live = await Client.open(f"{door.shop.url.replace('http', 'ws', 1)}/live", None)
    watched = await live.subscribe("ticketing.order", checkout_id=id, token=token)
    await live.until(lambda: live.results.get(watched, {}).get("status") == "completed")
    await door.shop.call(f"{STAFF}/orders/{id}/revoke-links", {"link_version": 1}, staff=True)
    assert (await door.ask(f"/orders/{id}?access={token}"))[0] == 404
    await live.until(lambda: live.results[watched] == {"status": "unknown", "tickets": []})
    refused = await live.subscribe("ticketing.order", checkout_id=id, token=token)
    await live.until(lambda: refused in live.errors or live.results.get(refused, {}).get("status") == "unknown")
    await live.close()

    fresh = (await door.order())[1]
    path = f"/orders/{fresh['id']}?access={fresh['token']}"
    assert (await door.ask(path))[0] == 200
    days = timedelta(days=LINK_DAYS + 1)
    await door.db.execute(
        "update ticketing.events set starts_at = now() - $2::interval, ends_at = now() - $2::interval + interval '1 hour'"
        " where id = $1",
        UUID(door.event),
        days,
    )
    assert (await door.ask(path))[0] == 404


async def test_mails_and_guesses_of_strangers_are_limited(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_forms, "PER_RECIPIENT", Rate(2, per_s=3600))
    monkeypatch.setattr(requests, "COUPONS_PER_HOUR", 2)
    await door.shop.call(f"{STAFF}/events/{door.event}/status", {"status": "on_sale"}, staff=True)
    orders = [(await door.order())[1] for _ in range(3)]
    paid = [await door.ask(f"{PUBLIC}/checkouts/{order['id']}/pay", {"token": order["token"]}) for order in orders]
    assert [status for status, _ in paid] == [200, 200, 429]
    short = {"code": "AB", "percent_bps": 10_000}
    key = f"Bearer {door.shop.key}"
    assert (await door.ask(f"{STAFF}/coupons", short, authorization=key))[0] == 422
    guesses = [(await door.order(coupon=f"GUESS{n}"))[0] for n in range(3)]
    assert guesses == [422, 422, 429]
