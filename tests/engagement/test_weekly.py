"""The weekly review: who gets it and who does not (AC-5.2, AC-5.3)."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from onceward_apps.engagement import get_active_users_last_week, get_user_activity_count
from tests.engagement.house import House, counts

MONTH = timedelta(days=12)
"""Long enough for no review, too short for a goodbye."""


async def active_users(house: House) -> dict:
    async with house.acting() as tx:
        return {each.user_id: each for each in await get_active_users_last_week(tx)}


async def make(house: House, state: str) -> UUID:
    """A user in this state with activity today."""
    user = await house.user()
    await house.db.execute("update engagement.user_engagement_states set state = $2 where user_id = $1", user, state)
    return user


@pytest.mark.acceptance("AC-5.2.1")
async def test_ac_5_2_1_transactions_or_activity_within_seven_days_count(house: House) -> None:
    by_activity = await house.user(inactive=timedelta(days=6))
    by_transactions = await house.user(inactive=MONTH)
    # As another system may write it: a row of its own, of which last_activity_at knows nothing.
    await house.db.execute(
        "insert into engagement.transactions (organization_id, user_id, created_at)"
        " select $1, $2, onceward.now() - interval '6 days' from generate_series(1, 3)",
        house.organization,
        by_transactions,
    )
    await house.user(inactive=timedelta(days=7))
    old = await house.user(inactive=MONTH)
    await house.db.execute(
        "insert into engagement.transactions (organization_id, user_id, created_at)"
        " values ($1, $2, onceward.now() - interval '7 days'), ($1, $2, onceward.now() + interval '1 day')",
        house.organization,
        old,
    )
    found = await active_users(house)
    assert set(found) == {by_activity, by_transactions}
    assert (found[by_activity].transaction_count, found[by_transactions].transaction_count) == (0, 3)
    assert found[by_activity].locale == "pt-BR"
    assert found[by_activity].destination_jid == await house.number_of(by_activity)
    async with house.acting() as tx:
        assert await get_user_activity_count(tx, by_transactions, 7) == 3
        assert await get_user_activity_count(tx, by_transactions, 5) == 0


@pytest.mark.acceptance("AC-5.2.2", "weekly-4")
async def test_ac_5_2_2_dormant_users_are_excluded(house: House) -> None:
    active, helped, dormant = await make(house, "active"), await make(house, "help_flow"), await make(house, "dormant")
    assert set(await active_users(house)) == {active, helped}
    assert counts(await house.weekly()) == (2, 2, 0, 0)
    assert await house.queue(dormant) == []


@pytest.mark.acceptance("AC-5.2.3")
async def test_ac_5_2_3_opted_out_users_are_excluded_and_counted_as_skipped(house: House) -> None:
    user, opted_out = await house.user(), await house.user(opted_out=True)
    assert set(await active_users(house)) == {user}
    assert counts(await house.weekly()) == (2, 1, 0, 1)
    assert await house.queue(opted_out) == []


@pytest.mark.acceptance("AC-5.3.1", "weekly-1")
async def test_ac_5_3_1_a_user_with_three_transactions_gets_a_review(house: House) -> None:
    user = await house.user(inactive=MONTH)
    await house.transact(user, 3, ago=timedelta(days=2))
    await house.weekly()
    [message] = await house.queue(user)
    assert (message["message_type"], message["message_key"]) == ("weekly_review", "engagement.weekly_review")
    assert message["message_params"] == {"transaction_count": 3}
    assert message["idempotency_key"] == f"{user}:weekly_review:2020-W47"
    await house.drain()
    assert [each["template"]["name"] for each in house.whatsapp.messages] == ["engagement_weekly_review"]
    assert house.whatsapp.messages[0]["template"]["language"] == {"code": "pt_BR"}


@pytest.mark.acceptance("AC-5.3.1")
async def test_ac_5_3_1_a_preferred_group_falls_back_to_the_person_and_that_is_recorded(house: House) -> None:
    user = await house.user(destination="group")
    await house.weekly()
    await house.drain()
    [message] = await house.queue(user)
    assert (message["destination"], message["status"]) == ("individual", "sent")
    data = await house.db.fetchval("select data from onceward.messages where id = $1", message["id"])
    assert data["instead_of"] == "group"
    assert house.whatsapp.messages[0]["to"] == await house.number_of(user)


@pytest.mark.acceptance("weekly-2")
async def test_weekly_2_a_user_with_activity_only_gets_a_review(house: House) -> None:
    user = await house.user(inactive=MONTH)
    await house.active(user, ago=timedelta(days=1))
    assert counts(await house.weekly()) == (1, 1, 0, 0)
    [message] = await house.queue(user)
    assert message["message_params"] == {"transaction_count": 0}


@pytest.mark.acceptance("AC-5.3.2", "weekly-3")
async def test_ac_5_3_2_a_user_without_activity_gets_nothing(house: House) -> None:
    user = await house.user(inactive=MONTH)
    assert counts(await house.weekly()) == (0, 0, 0, 0)
    assert await house.queue(user) == []


@pytest.mark.acceptance("AC-5.3.3", "weekly-5")
async def test_ac_5_3_3_a_second_run_in_the_same_week_queues_nothing(house: House) -> None:
    user = await house.user()
    await house.weekly()
    await house.drain()
    await house.clock.advance(days=6)  # Sunday of the same ISO week
    await house.active(user)
    await house.weekly()
    assert len(await house.queue(user)) == 1
    await house.clock.advance(days=1)
    await house.weekly()
    assert [each["idempotency_key"][-8:] for each in await house.queue(user)] == ["2020-W47", "2020-W48"]


async def test_a_user_without_a_number_is_skipped(house: House) -> None:
    await house.user(number=None)
    assert counts(await house.weekly()) == (1, 0, 0, 1)
    assert await house.queue() == []


async def test_posthog_learns_of_queued_reviews_and_of_moves_once(house: House) -> None:
    reviewed = await house.user()
    gone = await house.user(inactive=timedelta(days=20))
    await house.weekly()
    await house.daily()
    await house.weekly()
    await house.drain()
    sent = {(event["event"], event["properties"]["distinct_id"]): event["properties"] for event in house.posthog.events}
    assert set(sent) == {
        ("engagement_weekly_review_sent", str(reviewed)),
        ("engagement_state_changed", str(gone)),
    }
    assert len(house.posthog.events) == 2
    assert sent["engagement_state_changed", str(gone)]["to_state"] == "goodbye_sent"
    assert sent["engagement_weekly_review_sent", str(reviewed)]["transaction_count"] == 0


@pytest.mark.acceptance("002-H holes")
async def test_nobody_is_praised_for_no_transactions(house: House) -> None:
    visitor = await house.user()
    busy = await house.user()
    await house.active(visitor)
    await house.transact(busy, 2)
    await house.weekly()
    [visit], [review] = await house.queue(visitor), await house.queue(busy)
    assert (visit["message_key"], visit["message_type"]) == ("engagement.weekly_visit", "weekly_review")
    assert review["message_key"] == "engagement.weekly_review"
    await house.weekly()
    assert len(await house.queue(visitor)) == 1
