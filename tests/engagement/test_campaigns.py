"""Campaigns: what would be sent, to whom, why not to others, what the message says, and a pause."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from uuid import UUID

import pytest

from onceward import Onceward
from onceward.db import Database
from onceward.messages import Limit
from onceward.testing import until
from onceward_apps.engagement import campaigns
from onceward_apps.engagement.eligibility import preview
from onceward_apps.engagement.model import Campaign
from tests.engagement.house import House, counts

WAITS = "select recipient from onceward.messages where status = 'pending' order by id limit 1"
pytestmark = pytest.mark.acceptance("002-H campaigns")


async def reasons(house: House, job: str) -> Counter[tuple[str, str]]:
    async with house.acting() as tx:
        return Counter([(each.action, each.why) async for each in preview(tx, house.organization, job)])  # type: ignore[arg-type]


async def set_paused(house: House, campaign: Campaign, paused: bool) -> bool:
    async with house.acting() as tx:
        return await (campaigns.pause if paused else campaigns.resume)(tx, campaign, actor="test")


async def test_a_paused_campaign_queues_nothing_and_the_dry_run_says_so(house: House) -> None:
    away, present = await house.user(inactive=timedelta(days=20)), await house.user()
    other = await house.add_organization("other")
    elsewhere = await house.user(inactive=timedelta(days=20), organization=other)
    assert await reasons(house, "daily") == {("goodbye", "no activity for 20 days"): 1}
    for campaign in ("goodbye", "weekly_review"):
        assert await set_paused(house, campaign, True)
        assert not await set_paused(house, campaign, True), "paused already"
    assert await reasons(house, "daily") == {("nothing", "the campaign is paused"): 1}
    assert await reasons(house, "weekly") == {("nothing", "the campaign is paused"): 1}
    await house.daily()
    assert counts(await house.weekly()) == (0, 0, 0, 0)
    assert [each["user_id"] for each in await house.queue()] == [elsewhere], "others are not paused"
    for campaign in ("goodbye", "weekly_review"):
        assert await set_paused(house, campaign, False)
    await house.daily()
    await house.weekly()
    assert {each["user_id"] for each in await house.queue()} == {elsewhere, away, present}
    rows = await house.db.fetch("select action from onceward.audit_log where action like 'engagement_campaign%'")
    assert Counter(row["action"] for row in rows) == {"engagement_campaign_paused": 2, "engagement_campaign_resumed": 2}


async def test_waiting_ends_while_a_campaign_is_paused(house: House) -> None:
    user = await house.say_goodbye()
    await set_paused(house, "goodbye", True)
    await house.clock.advance(hours=49)
    await house.daily()
    assert await house.state(user) == "dormant"


async def test_a_pause_during_a_run_stops_the_batches_that_follow(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [await house.user(inactive=timedelta(days=20)) for _ in range(3)]

    async def running(_fetch: object, _campaign: object, organizations: object) -> object:
        return organizations  # as if the pause came just after

    monkeypatch.setattr("onceward_apps.engagement.store.pauses.running", running)
    await set_paused(house, "goodbye", True)
    assert counts(await house.daily()) == (3, 0, 0, 3)
    assert {await house.state(user) for user in users} == {"active"}


async def test_stop_in_the_middle_of_a_campaign_ends_it_for_that_person_only(db: Database, app: Onceward) -> None:
    """The first message has been sent, and another one waits for its slot when its person writes STOP."""
    house = await House(db, app).open(limits={"whatsapp": [Limit(count=1, per_s=1.0)]})
    try:
        await house.source(organization=house.organization)
        for _ in range(3):
            await house.user(inactive=timedelta(days=20))
        await house.daily()
        async with house.worker():
            await until(lambda: house.whatsapp.messages)
            stopped = await db.fetchval(WAITS)
            sender = (await house.number_of(UUID(stopped))).lstrip("+")
            message = {"id": "wamid.stop", "timestamp": str(int(house.clock.at.timestamp())), "type": "text"}
            await house.deliver({**message, "from": sender, "text": {"body": "parar"}}, handle=False)
            await until(lambda: house.effect("wamid.stop"))
            await house.clock.advance(minutes=1)

            async def ended() -> bool:
                return {each["status"] for each in await house.queue()} <= {"sent", "cancelled"}

            await until(ended)
        ends = {str(each["user_id"]): (each["status"], each["error_message"]) for each in await house.queue()}
        assert ends.pop(stopped)[0] == "cancelled"
        assert {status for status, _ in ends.values()} == {"sent"}
        assert len(house.whatsapp.messages) == 2
        assert sender not in {str(each["to"]).lstrip("+") for each in house.whatsapp.messages}
    finally:
        await house.close()


async def test_an_operator_reads_what_the_messages_say(house: House) -> None:
    await house.user(inactive=timedelta(days=20))
    await house.daily()
    async with house.acting() as tx:
        goodbye, review = await campaigns.campaigns(tx, house.engine, house.organization)
    assert (goodbye.campaign, goodbye.queued, goodbye.paused_at) == ("goodbye", 1, None)
    assert {each.locale for each in goodbye.texts} == {"en", "pt"}
    assert {each.template for each in review.texts} == {"engagement.weekly_review", "engagement.weekly_visit"}
    assert all(each.text.strip() and "{" not in each.text for each in (*goodbye.texts, *review.texts))
