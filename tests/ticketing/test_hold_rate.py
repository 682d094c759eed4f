"""Nobody logs in to hold seats, so the holds of one address on one event are limited per minute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp

from onceward.trust.keys import create_key
from onceward.trust.organizations import create_organization
from tests.ticketing.test_http import PUBLIC, Shop, opened_shop


async def hold(shop: Shop, seats: list[str], *, event: str | None = None, **headers: str) -> Any:
    path = f"{PUBLIC}/events/{event or shop.event_id}/holds"
    async with (
        aiohttp.ClientSession(shop.url) as http,
        http.post(
            path, json={"seats": seats}, headers={k.replace("_", "-"): v for k, v in headers.items()}
        ) as response,
    ):
        return response.status, response.headers, await response.json(content_type=None)


async def seats_of(shop: Shop, event: str | None = None) -> list[str]:
    shown = await shop.call(f"{PUBLIC}/events/{event or shop.event_id}")
    rows = shown["sections"][0]["rows"]
    return [f"{row['label']}{n + 1}" for row in rows for n in range(row["seats"])]


async def test_the_limit_answers_429_with_a_time_and_holds_nothing(database_url: str, tmp_path: Path) -> None:
    async with opened_shop(database_url, tmp_path, holds_per_minute=4) as shop:
        seats = await seats_of(shop)
        assert (await hold(shop, seats[:3]))[0] == 201
        status, headers, body = await hold(shop, seats[3:5])
        assert (status, headers["content-type"]) == (429, "application/problem+json")
        assert 1 <= int(headers["retry-after"]) <= 15
        assert (body["type"], body["status"]) == ("TooFast", 429)
        assert headers["retry-after"] in body["detail"]
        assert (await hold(shop, seats[3:4]))[0] == 201  # one was left
        held = "select count(*) from ticketing.seats where status = 'held'"
        assert await shop.runtime.database.fetchval(held) == 4
        # Tries count as well, also those that somebody else was quicker at.
        await shop.runtime.database.execute("delete from onceward.rates")
        assert [(await hold(shop, seats[:1]))[0] for _ in range(5)] == [409, 409, 409, 409, 429]


async def test_events_and_organizations_are_counted_apart(database_url: str, tmp_path: Path) -> None:
    async with opened_shop(database_url, tmp_path, holds_per_minute=2) as shop:
        first = shop.event_id
        await shop.put_on_sale()
        second = shop.event_id
        async with shop.runtime.database.transaction(role="engine") as tx:
            other = await create_organization(tx, "hillside", name="Hillside", actor="test")
            key = await create_key(
                tx, name="door", organization=other.organization_id, scopes=["operator"], actor="test"
            )
        shop.key = key.text
        await shop.put_on_sale()
        third = shop.event_id
        for event in (first, second, third):
            seats = await seats_of(shop, event)
            assert (await hold(shop, seats[:2], event=event))[0] == 201
            assert (await hold(shop, seats[2:3], event=event))[0] == 429


async def test_behind_a_trusted_proxy_the_address_that_it_names_counts(database_url: str, tmp_path: Path) -> None:
    async with opened_shop(database_url, tmp_path, holds_per_minute=1) as shop:
        seats = await seats_of(shop)
        assert (await hold(shop, seats[:1], x_forwarded_for="198.51.100.7"))[0] == 201
        assert (await hold(shop, seats[1:2], x_forwarded_for="198.51.100.7"))[0] == 429
        # What the client itself had written before the proxy added its address is not believed.
        assert (await hold(shop, seats[1:2], x_forwarded_for="203.0.113.1, 198.51.100.7"))[0] == 429
        assert (await hold(shop, seats[1:2], x_forwarded_for="198.51.100.8"))[0] == 201
        # Of IPv6 the network counts: a host has as many addresses in it as it likes.
        assert (await hold(shop, seats[2:3], x_forwarded_for="2001:db8:1:2::1"))[0] == 201
        assert (await hold(shop, seats[3:4], x_forwarded_for="2001:db8:1:2::2"))[0] == 429
        assert (await hold(shop, seats[3:4], x_forwarded_for="2001:db8:1:3::1"))[0] == 201


async def test_without_a_trusted_proxy_the_header_is_ignored(database_url: str, tmp_path: Path) -> None:
    proxies = ("192.0.2.10",)
    async with opened_shop(database_url, tmp_path, holds_per_minute=1, trusted_proxies=proxies) as shop:
        seats = await seats_of(shop)
        assert (await hold(shop, seats[:1], x_forwarded_for="198.51.100.7"))[0] == 201
        assert (await hold(shop, seats[1:2], x_forwarded_for="198.51.100.8"))[0] == 429


async def test_zero_means_unlimited(database_url: str, tmp_path: Path) -> None:
    async with opened_shop(database_url, tmp_path, holds_per_minute=0) as shop:
        seats = await seats_of(shop)
        assert [(await hold(shop, [seat]))[0] for seat in seats] == [201] * len(seats)
        assert await shop.runtime.database.fetchval("select count(*) from onceward.rates") == 0
