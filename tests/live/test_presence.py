"""Presence: online, away, offline; a lease, so that nobody stays for ever."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from onceward import Onceward
from onceward.db import Database
from onceward.live import set_presence
from onceward.live.presence import sweep
from tests.live.conftest import Client, Open, Start


def room_app() -> Onceward:
    app = Onceward("rooms")
    app.topic("cohort/{cohort_id}", allow="user", presence=True)
    app.topic("quiet/{id}", allow="user")
    return app


def users(client: Client, id: int) -> dict[str, str]:
    result: Any = client.results.get(id, {"users": []})
    return {user["user_id"]: user["status"] for user in result["users"]}


async def test_a_person_is_present_in_a_place_until_they_leave(
    site: Start, client: Open, shop: Database, organization: UUID
) -> None:
    here = await site(room_app())
    ada, bob = await client(here, organization, "ada", "user"), await client(here, organization, "bob", "user")
    id = await ada.subscribe("presence", place="cohort/7")
    await ada.until(lambda: id in ada.results)
    await ada.say("presence", place="cohort/7", status="online")
    await bob.say("presence", place="cohort/7", status="online")
    await ada.until(lambda: users(ada, id) == {"ada": "online", "bob": "online"})
    await bob.say("presence", place="cohort/7", status="away")
    await ada.until(lambda: users(ada, id) == {"ada": "online", "bob": "away"})
    await bob.say("presence", place="cohort/7", status="offline")
    await ada.until(lambda: users(ada, id) == {"ada": "online"})


async def test_a_second_tab_keeps_a_user_online_and_a_closed_connection_ends_it(
    site: Start, client: Open, organization: UUID
) -> None:
    here = await site(room_app())
    ada = await client(here, organization, "ada", "user")
    id = await ada.subscribe("presence", place="cohort/7")
    tabs = [await client(here, organization, "bob", "user") for _ in range(2)]
    await tabs[0].say("presence", place="cohort/7", status="online")
    await tabs[1].say("presence", place="cohort/7", status="away")
    await ada.until(lambda: users(ada, id) == {"bob": "online"})
    await tabs[0].close()
    await ada.until(lambda: users(ada, id) == {"bob": "away"}, timeout_s=15)


async def test_the_presence_of_a_crashed_node_ends_with_its_lease(
    site: Start, client: Open, shop: Database, organization: UUID
) -> None:
    here = await site(room_app())
    node = uuid4()
    await shop.execute(
        "insert into onceward.live_nodes (node, name, expires_at)"
        " values ($1, 'crashed', onceward.now() + interval '1.5 seconds')",
        node,
    )
    await shop.execute(
        "insert into onceward.presence (organization_id, place, user_id, holder, node, status)"
        " values ($1, 'cohort/7', 'bob', gen_random_uuid(), $2, 'online')",
        organization,
        node,
    )
    ada = await client(here, organization, "ada", "user")
    id = await ada.subscribe("presence", place="cohort/7")
    await ada.until(lambda: users(ada, id) == {"bob": "online"})
    await ada.until(lambda: users(ada, id) == {})
    await sweep(shop)
    assert await shop.fetchval("select count(*) from onceward.presence") == 0


async def test_presence_through_the_api_is_a_lease_of_five_minutes(
    site: Start, client: Open, shop: Database, organization: UUID
) -> None:
    here = await site(room_app())
    async with here.engine.transaction(organization=organization) as tx:
        await set_presence(tx, "cohort/7", "bob")
    ada = await client(here, organization, "ada", "user")
    id = await ada.subscribe("presence", place="cohort/7")
    await ada.until(lambda: users(ada, id) == {"bob": "online"})
    left = await shop.fetchval("select extract(epoch from expires_at - onceward.now())::int from onceward.presence")
    assert 290 <= left <= 300
    async with here.engine.transaction(organization=organization) as tx:
        await set_presence(tx, "cohort/7", "bob", "offline")
    await ada.until(lambda: users(ada, id) == {})


async def test_a_place_must_be_declared_and_is_seen_by_its_organization_only(site: Start, client: Open) -> None:
    here, ours, theirs = await site(room_app()), uuid4(), uuid4()
    ada, eve = await client(here, ours, "ada", "user"), await client(here, theirs, "eve", "user")
    await eve.say("presence", place="cohort/7", status="online")
    await ada.say("presence", place="quiet/7", status="online")
    await ada.until(lambda: ada.errors.get(None, {}).get("code") == "unknown_topic")
    id = await ada.subscribe("presence", place="cohort/7")
    await ada.until(lambda: id in ada.results)
    other = await eve.subscribe("presence", place="cohort/7")
    await eve.until(lambda: users(eve, other) == {"eve": "online"})
    assert users(ada, id) == {}
    refused = await ada.subscribe("presence", place="quiet/7")
    await ada.until(lambda: refused in ada.errors)
