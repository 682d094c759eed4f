"""A crash or a stall at any moment of a run or a reply changes nothing about the result: one move, one message, one event."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.schedules import run_now
from onceward.testing import crash_test, stall_test
from onceward_apps.engagement.app import EngagementSettings
from tests.engagement.house import House, values

RESET = """
truncate engagement.user_profiles, engagement.transitions, onceward.run_parts, onceward.messages,
    onceward.work, onceward.jobs, onceward.attempts, onceward.claims, onceward.runs, onceward.run_items, onceward.recipients,
    onceward.opt_outs, onceward.webhook_events, onceward.published, onceward.notices, onceward.unique_keys cascade
"""


async def observe(house: House) -> dict[str, Any]:
    """What is left, without ids and times."""
    one = house.db.fetchval
    return {
        "states": [
            tuple(row)
            for row in await house.db.fetch(
                "select state, count(*) from engagement.user_engagement_states group by 1 order by 1"
            )
        ],
        "moves": await one("select count(*) from engagement.transitions"),
        "messages": [
            tuple(row)
            for row in await house.db.fetch(
                # Nobody knows what became of a send that a crash cut off, so it is never sent again.
                "select message_type, replace(status, 'unknown', 'sent'), count(*) from engagement.engagement_message_queue"
                " group by 1, 2 order by 1, 2"
            )
        ],
        "counted": values(await house.db.fetchrow("select sum(processed), sum(succeeded) from onceward.run_parts")),
        "runs": [
            tuple(row)
            for row in await house.db.fetch(
                "select schedule, status, processed, succeeded from onceward.runs order by schedule"
            )
        ],
        "published": await one("select count(*) from onceward.published"),
        "notices": await one("select count(*) from onceward.notices where type like 'engagement%'"),
        "sent twice": len(house.whatsapp.messages) - len({each["to"] for each in house.whatsapp.messages}),
        "events": len({event["uuid"] for event in house.posthog.events}),
    }


async def reset(house: House) -> None:
    await house.db.execute(RESET)
    house.posthog.events.clear()
    house.whatsapp.messages.clear()


async def start(house: House, name: str) -> None:
    async with house.engine.transaction() as tx:
        await tx.become_engine()
        await run_now(tx, house.app.schedules[name], by="test")


async def test_both_runs_survive_a_crash_at_every_gate(house: House, thorough: bool) -> None:
    house.app.use_settings(EngagementSettings(batch_size=2))
    ids = [uuid4() for _ in range(5)]

    async def arrange() -> None:
        for number, user in enumerate(ids):
            await house.user(
                id=user, inactive=timedelta(days=15 if number < 3 else 1), number=f"+55119000000{number:02}"
            )
        await start(house, "engagement-daily")
        await start(house, "engagement-weekly")

    await crash_test(
        house.engine,
        arrange=arrange,
        observe=lambda: observe(house),
        reset=lambda: reset(house),
        every=thorough,
    )
    seen = await observe(house)
    assert seen["states"] == [("active", 2), ("goodbye_sent", 3)]
    assert seen["messages"] == [("goodbye", "sent", 3), ("weekly_review", "sent", 2)]


async def test_replies_survive_a_crash_at_every_gate(house: House, thorough: bool) -> None:
    await house.source(organization=house.organization)
    users: dict[str, UUID] = {word: uuid4() for word in ("ajuda", "depois", "parar", "oi")}

    async def arrange() -> None:
        for number, (word, user) in enumerate(users.items()):
            phone = f"+55119000000{number:02}"
            await house.user(id=user, inactive=timedelta(days=15), number=phone)
            await house.db.execute(
                "update engagement.user_engagement_states set state = 'goodbye_sent', goodbye_sent_at = onceward.now(),"
                " goodbye_expires_at = onceward.now() + interval '48 hours' where user_id = $1",
                user,
            )
            message = {
                "from": phone.lstrip("+"),
                "id": f"wamid.{uuid4().hex}",
                "timestamp": str(int(house.clock.at.timestamp())),
                "type": "text",
                "text": {"body": word},
            }
            await house.deliver(message, handle=False)

    await crash_test(
        house.engine,
        arrange=arrange,
        observe=lambda: observe(house),
        reset=lambda: reset(house),
        every=thorough,
    )
    seen = await observe(house)
    assert seen["states"] == [("active", 1), ("dormant", 1), ("help_flow", 1), ("remind_later", 1)]
    assert (seen["moves"], seen["published"], seen["notices"]) == (4, 1, 1)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_daily_run_frozen_at_any_gate_changes_nothing_when_it_goes_on(database_url: str) -> None:
    gates = await stall_test("tests.engagement.stalls:daily", database_url)
    assert {"item-before-commit", "item-after-commit", "after-send"} <= set(gates)
