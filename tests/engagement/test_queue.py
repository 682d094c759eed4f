"""Sending what is queued (AC-5.4) and keys that are used once (AC-5.6)."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from uuid import UUID, uuid4

import pytest

from onceward import Onceward
from onceward.db import Database
from onceward.http import GuardedClient, ServiceClient
from onceward.messages import Recipient, Template
from onceward.messages import limits as message_limits
from onceward.messages.channel import ChannelSetup
from onceward.messages.service import limits
from onceward.settings import Settings
from onceward.testing import Crash, give_back
from onceward.work import gate
from onceward_apps.engagement import QueuedMessage, process_message_queue, queue_message
from onceward_apps.engagement.app import EngagementSettings
from onceward_apps.engagement.model import goodbye_key, weekly_key
from tests.engagement.house import House, counts, values

DAYS_14 = timedelta(days=14)


def review(user: UUID, key: str | None = None, **more: object) -> QueuedMessage:
    return QueuedMessage(
        user_id=user,
        message_type="weekly_review",
        message_params={"transaction_count": 1},
        idempotency_key=key or f"{user}:weekly_review:2020-W47",
        **more,  # type: ignore[arg-type]
    )


async def queue(house: House, message: QueuedMessage) -> object:
    async with house.acting() as tx:
        return await queue_message(tx, message)


@pytest.mark.acceptance("AC-5.4.1")
async def test_ac_5_4_1_due_messages_are_sent_and_marked_sent(house: House) -> None:
    due, future = await house.user(), await house.user()
    await queue(house, review(due))
    await queue(house, review(future, scheduled_for=house.clock.at + timedelta(hours=1)))
    async with house.worker():
        done = await process_message_queue(house.engine)
    assert (done.processed, done.sent, done.failed) == (1, 1, 0)
    [sent], [waiting] = await house.queue(due), await house.queue(future)
    assert (sent["status"], sent["sent_at"], sent["retry_count"]) == ("sent", house.clock.at, 0)
    assert (waiting["status"], waiting["sent_at"]) == ("pending", None)
    assert waiting["scheduled_for"] == house.clock.at + timedelta(hours=1)
    assert len(house.whatsapp.messages) == 1


@pytest.mark.acceptance("AC-5.4.2")
async def test_ac_5_4_2_a_failed_send_stays_pending_counts_and_is_retried_after_1_and_2_seconds(house: House) -> None:
    user = await house.user()
    await queue(house, review(user))
    waits: list[float] = []
    for failures in (1, 2):
        house.whatsapp.fail_next(status=503)
        await house.drain()
        [message] = await house.queue(user)
        assert (message["status"], message["retry_count"]) == ("pending", failures)
        assert message["error_message"]
        due = await house.db.fetchval("select sort_at from onceward.work where id = $1", message["id"])
        waits.append((due - house.clock.at).total_seconds())
        await house.clock.move_to(due)
    assert [round(wait) for wait in waits] == [1, 2]
    await house.drain()
    [message] = await house.queue(user)
    assert (message["status"], message["retry_count"]) == ("sent", 2)


@pytest.mark.acceptance("AC-5.4.3")
async def test_ac_5_4_3_after_three_tries_the_message_is_failed(house: House) -> None:
    user = await house.user()
    await queue(house, review(user))
    for _ in range(4):
        house.whatsapp.fail_next(status=503)
        await house.drain()
        await house.clock.advance(seconds=10)
    [message] = await house.queue(user)
    assert (message["status"], message["retry_count"], message["sent_at"]) == ("failed", 3, None)
    assert "WhatsApp" in message["error_message"] or "503" in message["error_message"]
    assert house.whatsapp.messages == []


@pytest.mark.acceptance("AC-5.4.4")
async def test_ac_5_4_4_there_are_500_ms_between_sends_measured_where_they_arrive(
    db: Database, app: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        message_limits, "BULK_PATIENCE_S", 60
    )  # the clock stands still: nothing may wait for a later turn
    setup = ChannelSetup(settings=Settings(), client=ServiceClient(), guarded=GuardedClient())
    house = await House(db, app).open(limits={"whatsapp": limits(setup)["whatsapp"]})
    try:
        for _ in range(4):
            await queue(house, review(await house.user()))
        async with house.worker():
            assert (await process_message_queue(house.engine)).sent == 4
        arrivals = house.whatsapp.arrivals
        gaps = [later - earlier for earlier, later in pairwise(arrivals)]
        assert len(gaps) == 3
        assert min(gaps) >= 0.5
    finally:
        await house.close()


@pytest.mark.acceptance("002-H campaigns")
async def test_messages_of_other_apps_are_neither_sent_nor_waited_for(house: House) -> None:
    """The account may be shared: what another app has queued is its own."""
    user = await house.user()
    house.engine.templates.add(
        Template("other.note", {"en": {"subject": "", "text": "A note"}}, {"channel": "whatsapp"})
    )
    async with house.acting() as tx:
        await tx.send(
            "other.note", to=Recipient(whatsapp="+5511911112222", locale="en"), key="other", channel="whatsapp"
        )
    await queue(house, review(user))
    done = await process_message_queue(house.engine, timeout_s=0.05)
    assert (done.processed, done.sent, done.pending) == (1, 0, 1), "it sends nothing by itself"
    async with house.worker():
        done = await process_message_queue(house.engine)
    assert (done.processed, done.sent, done.pending) == (1, 1, 0)
    assert (await process_message_queue(house.engine)).processed == 0


@pytest.mark.acceptance("AC-5.6.1", "idempotency-1")
async def test_ac_5_6_1_the_daily_run_again_on_the_same_day_queues_no_second_goodbye(house: House) -> None:
    user = await house.user(inactive=DAYS_14)
    await house.daily()
    # Even if the state were lost, the key of the day is taken.
    await house.db.execute(
        "update engagement.user_engagement_states set state = 'active', goodbye_expires_at = null where user_id = $1",
        user,
    )
    await house.daily()
    [message] = await house.queue(user)
    assert message["idempotency_key"] == goodbye_key(user, house.clock.at)


@pytest.mark.acceptance("AC-5.6.2", "idempotency-2")
async def test_ac_5_6_2_the_weekly_run_again_in_the_same_week_queues_no_second_review(house: House) -> None:
    user = await house.user()
    first, second = await house.weekly(), await house.weekly()
    assert counts(first) == counts(second) == (1, 1, 0, 0)
    [message] = await house.queue(user)
    assert message["idempotency_key"] == weekly_key(user, house.clock.at)


@pytest.mark.acceptance("idempotency-3")
async def test_idempotency_3_different_dates_are_separate_entries(house: House) -> None:
    user = await house.user()
    for day in ("2020-11-16", "2020-11-17"):
        await queue(house, review(user, f"{user}:goodbye_sent:{day}"))
    assert len(await house.queue(user)) == 2


@pytest.mark.acceptance("AC-5.6.4")
async def test_ac_5_6_4_the_same_key_twice_is_one_entry(house: House) -> None:
    user = await house.user()
    first = await queue(house, review(user))
    second = await queue(house, review(user, scheduled_for=house.clock.at + timedelta(days=1)))
    assert (first.duplicate, second.duplicate, first.id) == (False, True, second.id)  # type: ignore[attr-defined]
    [message] = await house.queue(user)
    assert message["scheduled_for"] == house.clock.at


@pytest.mark.acceptance("AC-5.6.3")
@pytest.mark.parametrize("at", ["item-before-commit", "item-after-commit"])
async def test_ac_5_6_3_a_restart_in_the_middle_skips_finished_users_and_does_the_rest(
    house: House, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.app.use_settings(EngagementSettings(batch_size=2))
    users = [await house.user(inactive=DAYS_14) for _ in range(6)]
    passed = 0

    def die(name: str) -> None:
        nonlocal passed
        # The first of these commits is that of the reconciliation, before any batch.
        passed += name == at
        if name == at and passed == 3:
            raise Crash(name)

    with monkeypatch.context() as patch:
        patch.setattr(gate, "hook", die)
        with pytest.raises(Crash):
            await house.daily()
    done = 2 if at == "item-before-commit" else 4
    assert len(await house.queue()) == done
    await give_back(house.engine)
    await house.drain()
    row = await house.db.fetchrow("select status, processed, succeeded, failed from onceward.runs")
    assert values(row) == ("success", 6, 6, 0)
    assert {await house.state(user) for user in users} == {"goodbye_sent"}
    assert len(await house.queue()) == 6
    assert len({each["to"] for each in house.whatsapp.messages}) == len(house.whatsapp.messages) == 6


async def test_reserved_message_types_are_refused(house: House) -> None:
    with pytest.raises(ValueError, match="reserved"):
        await queue(house, QueuedMessage(user_id=uuid4(), message_type="reminder", idempotency_key="x"))
