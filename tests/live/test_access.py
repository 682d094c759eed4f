"""Who may see what, and how much of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from onceward import Onceward, Query
from onceward.db import Database
from onceward.live import Caller
from onceward.live.origin import allowed
from onceward.testing import until
from onceward.trust import UnknownSecretKey
from tests.live.conftest import Client, Open, Start
from tests.live.test_queries import add_seat, holds

ORDERS = {UUID(int=7): UUID(int=70)}


def guarded() -> Onceward:
    app = Onceward("guarded")

    @app.query
    async def staff(q: Query) -> str:
        return "for staff"

    @app.query(allow="user", per="user")
    async def mine(q: Query) -> str:
        return q.user_id

    @app.query(allow="user")
    async def leaky(q: Query) -> str:
        return q.user_id

    async def by_order(caller: Caller) -> bool | UUID:
        return ORDERS.get(caller.arguments["order"], False)

    @app.query(allow=by_order)
    async def order(q: Query, *, order: UUID) -> Any:
        q.watch("shop.seats")
        return await q.fetchval("select count(*) from shop.seats")

    @app.query(allow="admin")
    async def instance(q: Query) -> Any:
        q.watch("shop.seats")
        return await q.fetchval("select count(*) from shop.seats")

    return app


async def test_a_query_is_open_only_to_callers_that_its_rule_admits(
    site: Start, client: Open, organization: UUID
) -> None:
    here = await site(guarded())
    member, customer = await client(here, organization), await client(here, organization, scope="user")
    nobody = await Client.open(here.address, None)
    id = await member.subscribe("staff")
    await member.until(lambda: member.results.get(id) == "for staff")
    for each in (customer, nobody):
        id = await each.subscribe("staff")
        await each.until(lambda each=each, id=id: id in each.errors)  # type: ignore[misc]
        assert each.errors[id]["code"] == "refused"
    await nobody.close()


async def test_a_result_that_depends_on_the_user_must_be_declared_and_is_each_users_own(
    site: Start, client: Open, organization: UUID
) -> None:
    here = await site(guarded())
    for user in ("ada", "bob"):
        each = await client(here, organization, user, "user")
        id = await each.subscribe("mine")
        await each.until(lambda each=each, id=id, user=user: each.results.get(id) == user)  # type: ignore[misc]
        leaky = await each.subscribe("leaky")
        await each.until(lambda each=each, leaky=leaky: leaky in each.errors)  # type: ignore[misc]
        assert each.errors[leaky]["code"] == "not_visible"


async def test_a_rule_may_name_the_organization_and_end_users_need_not_log_in(site: Start, shop: Database) -> None:
    here = await site(guarded())
    await add_seat(shop, UUID(int=70), uuid4())
    await add_seat(shop, UUID(int=71), uuid4())
    buyer = await Client.open(here.address, None)
    id = await buyer.subscribe("order", order=str(UUID(int=7)))
    await holds(buyer, id, 1)
    other = await buyer.subscribe("order", order=str(UUID(int=8)))
    await buyer.until(lambda: other in buyer.errors)
    await buyer.close()


async def test_an_administrator_of_the_instance_sees_all_organizations(
    site: Start, client: Open, shop: Database
) -> None:
    here = await site(guarded())
    for _ in range(2):
        await add_seat(shop, uuid4(), uuid4())
    admin = await client(here, None, "root", "admin")
    id = await admin.subscribe("instance")
    await holds(admin, id, 2)


async def test_permission_that_was_taken_away_ends_the_subscription(site: Start, shop: Database) -> None:
    here = await site(guarded(), recheck_s=0.2)
    order = uuid4()
    ORDERS[order] = UUID(int=70)
    buyer = await Client.open(here.address, None)
    id = await buyer.subscribe("order", order=str(order))
    await buyer.until(lambda: id in buyer.results)
    del ORDERS[order]
    await buyer.until(lambda: buyer.errors.get(id, {}).get("code") == "refused")
    assert not any(group.subscribers for group in here.node.hub.groups.values())
    await buyer.close()


async def test_permission_that_was_taken_away_ends_following_and_presence(
    site: Start, client: Open, organization: UUID
) -> None:
    app, members = Onceward("club"), {"ada"}
    app.topic("room/{id}", allow=lambda caller: caller.user_in(caller.organization) in members, presence=True)
    here = await site(app, recheck_s=0.2)
    ada = await client(here, organization)
    id = await ada.follow("room/1")
    await ada.say("presence", place="room/1", status="online")
    await ada.until(lambda: id in ada.messages)
    members.clear()
    await ada.until(lambda: ada.errors.get(id, {}).get("code") == "refused")
    await ada.until(lambda: ada.errors.get(None, {}).get("code") == "refused")
    assert not here.node.hub.channels
    async with asyncio.timeout(10):
        while await here.db.fetchval("select count(*) from onceward.presence"):
            await asyncio.sleep(0.01)
    assert ada.closed_with is None


@pytest.mark.parametrize("fault", [RuntimeError("a fault of the rule"), UnknownSecretKey("a key is missing")])
async def test_a_rule_that_fails_when_it_is_asked_again_shuts_nobody_out(
    site: Start, client: Open, organization: UUID, fault: Exception
) -> None:
    app, asked = Onceward("club"), []
    broken = False

    def rule(caller: Caller) -> bool:
        asked.append(caller.user_in(caller.organization))
        if broken and caller.user_in(caller.organization) == "ada":
            raise fault
        return True

    app.topic("room/{id}", allow=rule)
    here = await site(app, recheck_s=0.2)
    ada, bob = await client(here, organization), await client(here, organization, user="bob")
    for each in (ada, bob):
        id = await each.follow("room/1")
        await each.until(lambda each=each, id=id: id in each.messages)
    asked.clear()
    broken = True
    async with asyncio.timeout(10):
        while "ada" not in asked or "bob" not in asked:
            await asyncio.sleep(0.01)
    assert (ada.errors, bob.errors, ada.closed_with, bob.closed_with) == ({}, {}, None, None)
    assert len(here.node.hub.connections) == 2


async def test_following_on_a_connection_that_closed_meanwhile_leaves_nothing_behind(
    site: Start, client: Open, organization: UUID
) -> None:
    app, asked, answer = Onceward("club"), asyncio.Event(), asyncio.Event()

    async def rule(_caller: Caller) -> bool:
        asked.set()
        await answer.wait()
        return True

    app.topic("room/{id}", allow=rule, presence=True)
    here = await site(app)
    ada = await client(here, organization)
    await ada.follow("room/1")
    await asked.wait()
    await here.node.endpoint.close_all()
    answer.set()
    await ada.until(lambda: ada.closed_with is not None)
    hub = here.node.hub
    async with asyncio.timeout(10):
        while hub.in_use.is_set():  # until nobody depends on the feed any more
            await asyncio.sleep(0.01)
    assert (hub.channels, hub.waiting, hub.connections) == ({}, set(), set())


# -- the door ---------------------------------------------------------------------------------------------------------


async def test_a_page_of_another_site_cannot_connect(site: Start) -> None:
    here = await site(guarded(), origins=("https://shop.example",))
    with pytest.raises(InvalidStatus) as refused:
        await connect(here.address, origin=Origin("https://evil.example"))
    assert refused.value.response.status_code == 403
    for origin in (f"http://127.0.0.1:{here.web.port}", "https://shop.example"):
        async with connect(here.address, origin=Origin(origin)):
            pass


@pytest.mark.parametrize(
    ("origin", "host", "verdict"),
    [
        (None, "a.example", True),
        ("https://a.example", "a.example", True),
        ("https://a.example", "a.example:443", True),
        ("https://a.example:8443", "a.example", False),
        ("https://b.example", "a.example", False),
        ("https://a.example.evil.example", "a.example", False),
        ("null", "a.example", False),
        ("https://c.example", "a.example", True),
    ],
)
def test_origins_are_compared_whole(origin: str | None, host: str, verdict: bool) -> None:
    assert allowed(origin, host, others=["https://c.example/"]) is verdict


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ('{"type":"hello","token":"wrong"}', 4401),
        ('{"type":"subscribe","id":1,"query":"staff"}', 4400),
        ("not json", 4400),
        ('{"type":"hello","organization":"x"}', 4400),
        ("[]", 4400),
    ],
)
async def test_a_client_without_a_valid_hello_is_disconnected(site: Start, first: str, code: int) -> None:
    here = await site(guarded())
    async with connect(here.address) as socket:
        await socket.send(first)
        await socket.wait_closed()
        assert socket.close_code == code


async def test_a_client_that_sends_nothing_is_disconnected(site: Start) -> None:
    here = await site(guarded(), hello_s=0.1)
    async with connect(here.address) as socket:
        await socket.wait_closed()
        assert socket.close_code == 4408


async def test_connections_subscriptions_and_groups_have_limits(site: Start, client: Open, organization: UUID) -> None:
    here = await site(
        guarded(), max_connections_per_organization=2, max_subscriptions_per_connection=2, max_groups_per_organization=1
    )
    ada, bob = await client(here, organization), await client(here, organization)
    await ada.until(lambda: ada.welcome is not None)
    await bob.until(lambda: bob.welcome is not None)
    third = await client(here, organization)
    await third.until(lambda: third.closed_with == 4429)
    elsewhere = await client(here, uuid4())
    await elsewhere.until(lambda: elsewhere.welcome is not None)
    await ada.subscribe("staff")
    second = await ada.subscribe("mine")
    await ada.until(lambda: second in ada.errors)
    assert ada.errors[second]["code"] == "too_much"
    await ada.subscribe("staff")
    more = await ada.subscribe("staff")
    await ada.until(lambda: more in ada.errors)


async def test_a_client_that_sends_too_fast_is_disconnected(site: Start, client: Open, organization: UUID) -> None:
    here = await site(guarded(), max_messages_per_s=2)
    ada = await client(here, organization)
    for _ in range(12):
        await ada.say("pong")
    await ada.until(lambda: ada.closed_with == 4429)


async def test_a_bad_message_is_answered_by_closing_and_harms_nobody_else(
    site: Start, client: Open, organization: UUID
) -> None:
    here = await site(guarded())
    ada, bob = await client(here, organization), await client(here, organization)
    await ada.socket.send('{"type":"subscribe","id":"x"}')
    await ada.until(lambda: ada.closed_with == 4400)
    id = await bob.subscribe("staff")
    await bob.until(lambda: id in bob.results)
    wrong = await bob.subscribe("order", order="not a uuid")
    await bob.until(lambda: bob.errors.get(wrong, {}).get("code") == "bad_arguments")
    unknown = await bob.subscribe("nope")
    await bob.until(lambda: bob.errors.get(unknown, {}).get("code") == "unknown_query")


async def test_a_slow_client_gets_the_newest_result_and_costs_constant_memory(
    site: Start, client: Open, shop: Database, organization: UUID
) -> None:
    app = Onceward("slow")

    @app.query
    async def big(q: Query) -> Any:
        q.watch("shop.seats")
        count = await q.fetchval("select count(*) from shop.seats")
        return {"count": count, "padding": chr(ord("a") + count % 26) * 300_000}  # results that have little in common

    here = await site(app)
    socket = await connect(here.address, compression=None, max_size=None, max_queue=1)
    await socket.send(json.dumps({"type": "hello", "token": f"{organization}/ada/viewer"}))
    await socket.send('{"type":"subscribe","id":1,"query":"big"}')
    await until(lambda: bool(here.node.hub.groups))
    [group] = here.node.hub.groups.values()
    [connection] = here.node.hub.connections
    write: Any = connection._write  # pyright: ignore[reportPrivateUsage]
    unsent: Callable[[], int] = write.__self__.transport.get_write_buffer_size

    seats = 0

    async def fill() -> bool:
        """Add seats until the buffers of the kernel are full: how much they take differs."""
        nonlocal seats
        await add_seat(shop, organization, uuid4())
        seats += 1
        return unsent() > 0

    await until(fill)
    for _ in range(40):
        await fill()
    await until(lambda: f'"count":{seats},' in (group.text or ""))
    assert len(connection.dirty) <= 1
    assert 0 < unsent() < 310_000, "the server holds at most one frame that the network has not accepted"
    frames = 0
    async with asyncio.timeout(10):
        async for text in socket:
            frames += '"frame"' in str(text)[:20]
            if f'"count":{seats},' in str(text)[:500]:
                break
    assert frames < seats
    await socket.close()


async def test_frames_before_the_end_of_the_handshake_are_ignored_and_break_nothing(site: Start) -> None:
    here = await site(guarded(), hello_s=0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", here.web.port)
    head = (
        "GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    early = b"\x81\x82\x00\x00\x00\x00hi"  # a masked text frame, in the same packet as the request
    writer.write(head.encode() + early)
    async with asyncio.timeout(10):
        said = await reader.readuntil(b"\r\n\r\n")
        closing = await reader.readexactly(4)
    assert said.startswith(b"HTTP/1.1 101")
    assert (closing[0], int.from_bytes(closing[2:], "big")) == (0x88, 4408), "the close code names the missing hello"
    writer.close()
