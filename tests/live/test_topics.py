"""Topics: sent at commit, to those who may follow them, replayed to those who were away."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from onceward import Onceward
from onceward.db import Database
from onceward.live.topics import Topic
from tests.live.conftest import Open, Start


def topic_app() -> Onceward:
    app = Onceward("topics")
    app.topic("occupancy/{org}/{event_id}")
    app.topic("user/{user_id}/bookings", allow="self", replay=3)
    app.topic("news", allow="anyone", replay=2)
    return app


async def test_a_broadcast_reaches_followers_at_commit_and_never_for_what_rolled_back(
    site: Start, client: Open, organization: UUID
) -> None:
    here = await site(topic_app())
    topic = f"occupancy/{organization}/7"
    ada = await client(here, organization)
    id = await ada.follow(topic)
    await ada.until(lambda: id in ada.messages)
    with pytest.raises(ZeroDivisionError):
        async with here.engine.transaction(organization=organization) as tx:
            await tx.broadcast(topic, {"sold": 1})
            raise ZeroDivisionError
    async with here.engine.transaction(organization=organization) as tx:
        await tx.broadcast(topic, {"sold": 2})
        await tx.broadcast(topic, {"sold": 3})
    await ada.until(lambda: ada.messages[id] == [{"sold": 2}, {"sold": 3}])


async def test_a_topic_of_the_same_name_is_another_one_for_each_organization(site: Start, client: Open) -> None:
    here, ours, theirs = await site(topic_app()), uuid4(), uuid4()
    ada, eve = await client(here, ours), await client(here, theirs)
    mine, other = await ada.follow("occupancy/x/1"), await eve.follow("occupancy/x/1")
    await ada.until(lambda: mine in ada.messages)
    await eve.until(lambda: other in eve.messages)
    for organization, payload in ((theirs, "theirs"), (ours, "ours")):
        async with here.engine.transaction(organization=organization) as tx:
            await tx.broadcast("occupancy/x/1", payload)
    await ada.until(lambda: ada.messages[mine] == ["ours"])
    await eve.until(lambda: eve.messages[other] == ["theirs"])


async def test_new_followers_begin_with_the_last_messages(site: Start, client: Open, organization: UUID) -> None:
    here = await site(topic_app())
    for n in range(5):
        async with here.engine.transaction(organization=organization) as tx:
            await tx.broadcast("user/ada/bookings", n)
    ada = await client(here, organization, user="ada", scope="user")
    id = await ada.follow("user/ada/bookings")
    await ada.until(lambda: ada.messages.get(id) == [2, 3, 4])
    one = await ada.follow("user/ada/bookings", last=1)
    await ada.until(lambda: ada.messages.get(one) == [4])


async def test_a_client_that_reconnects_gets_exactly_what_it_missed_even_if_it_committed_out_of_order(
    site: Start, client: Open, shop: Database, organization: UUID
) -> None:
    here = await site(topic_app())
    ada = await client(here, organization, user="ada", scope="user")
    id = await ada.follow("user/ada/bookings")
    await ada.until(lambda: id in ada.messages)
    slow = await shop.connect()
    transaction = slow.transaction()
    await transaction.start()
    await slow.execute(
        "insert into onceward.topic_messages (organization_id, topic, payload) values ($1, 'user/ada/bookings', '1')",
        organization,
    )
    async with here.engine.transaction(organization=organization) as tx:
        await tx.broadcast("user/ada/bookings", 2)
    await ada.until(lambda: ada.messages[id] == [2])
    version = ada.topic_versions[id]
    await ada.close()
    await transaction.commit()
    await slow.close()
    async with here.engine.transaction(organization=organization) as tx:
        await tx.broadcast("user/ada/bookings", 3)
    again = await client(here, organization, user="ada", scope="user")
    id = await again.follow("user/ada/bookings", since=version)
    await again.until(lambda: again.messages.get(id) == [1, 3])
    assert not again.resets


async def test_a_follower_that_missed_more_than_is_kept_gets_a_gap_notice(
    site: Start, client: Open, organization: UUID
) -> None:
    here = await site(topic_app(), topic_replay=3)
    ada = await client(here, organization)
    id = await ada.follow("news")
    await ada.until(lambda: id in ada.messages)
    version = ada.topic_versions[id]
    await ada.close()
    for n in range(10):
        async with here.engine.transaction(organization=organization) as tx:
            await tx.broadcast("news", n)
    again = await client(here, organization)
    id = await again.follow("news", since=version)
    await again.until(lambda: again.messages.get(id) == [7, 8, 9])
    assert id in again.resets
    other = await again.follow("news", since="999.1/1:1:")
    await again.until(lambda: other in again.resets)


async def test_only_callers_that_the_rule_admits_may_follow(site: Start, client: Open, organization: UUID) -> None:
    here = await site(topic_app())
    eve = await client(here, organization, user="eve", scope="user")
    others, staff, none = (
        await eve.follow("user/ada/bookings"),
        await eve.follow("occupancy/x/1"),
        await eve.follow("secret"),
    )
    await eve.until(lambda: {others, staff, none} <= eve.errors.keys())
    assert [eve.errors[id]["code"] for id in (others, staff, none)] == ["refused", "refused", "unknown_topic"]


def test_a_pattern_that_cannot_be_matched_is_refused_when_declared() -> None:
    app = Onceward("patterns")
    for pattern in ("a//b", "a/{b}/{b}", "a b", "{A}"):
        with pytest.raises(ValueError, match="topic"):
            app.topic(pattern)
    topic = Topic.declare("a/{b}", allow="anyone", replay=0, presence=False)
    assert topic.match("a/1/2") is None
    assert topic.match("a/1") == {"b": "1"}


async def test_a_payload_that_is_too_large_is_refused_with_a_way_out(site: Start, organization: UUID) -> None:
    here = await site(topic_app())
    with pytest.raises(ValueError, match="let a live query carry the data"):
        async with here.engine.transaction(organization=organization) as tx:
            await tx.broadcast("news", "x" * 70_000)
