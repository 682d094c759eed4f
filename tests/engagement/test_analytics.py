"""PostHog out of order, slow or absent: nothing is counted twice, and no run waits for it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onceward_apps.engagement.jobs import capture_transitions
from tests.engagement.house import House

OUTCOME = "select outcome from onceward.attempts where task = 'engagement.capture_transitions' order by finished_at"


async def outcomes(house: House) -> list[str]:
    return [row["outcome"] for row in await house.db.fetch(OUTCOME)]


async def move(house: House) -> None:
    await house.user(inactive=timedelta(days=15))
    await house.daily()


@pytest.mark.parametrize("fault", ["fail", "limit", "drop", "quota"])
async def test_a_passing_fault_is_retried_and_the_event_counts_once(house: House, fault: str) -> None:
    await move(house)
    match fault:
        case "fail":
            house.posthog.fail_next(status=503)
        case "limit":
            house.posthog.rate_limit()
        case "drop":
            house.posthog.drop_after_send()
        case _:
            house.posthog.quota_is_used_up = True
    await house.drain()
    assert await outcomes(house) == ["retry"]
    house.posthog.quota_is_used_up = False
    await house.clock.advance(hours=2)
    await house.drain()
    assert await outcomes(house) == ["retry", "success"]
    assert len(house.posthog.events) == 1


async def test_a_refusal_for_good_is_not_repeated(house: House) -> None:
    await move(house)
    house.posthog.fail_next(status=400)
    await house.drain()
    await house.clock.advance(hours=2)
    await house.drain()
    assert await outcomes(house) == ["failed"]  # not critical: no dead letter
    assert house.posthog.events == []


async def test_without_posthog_nothing_is_sent_and_nothing_fails(house: House) -> None:
    house.no_posthog()
    await move(house)
    await house.drain()
    assert await outcomes(house) == ["success"]


async def test_transitions_of_erased_users_are_not_sent(house: House) -> None:
    await house.engine.enqueue(capture_transitions.for_organization(house.organization), transitions=[1, 2])
    await house.drain()
    assert house.posthog.received == []
