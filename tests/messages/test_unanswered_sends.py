"""A send that was never answered stays unresolved whatever happens to later tries: no second message goes out blindly."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from onceward.messages.lines import Line
from onceward.messages.sender import _key_forgotten
from onceward.messages.unknown_outcomes import resolve
from onceward.work import gate


async def until_parked(here: Any, id: int) -> None:
    """Wait until a try has met a parked channel, then stop all workers."""
    async with asyncio.timeout(20):
        while True:
            failures = await here.db.fetchval("select max(failures) from onceward.queues")
            row = await here.message(id)
            if failures and row["status"] == "pending":
                break
            await asyncio.sleep(0.02)
    while here.workers:
        await here.workers.pop().stop()


async def an_hour_later(here: Any, *channels: Any) -> None:
    """As if the pause of the service were over: nothing is parked any more, and its keys are forgotten."""
    await here.db.execute(
        "update onceward.messages set sending_since = sending_since - interval '1 hour',"
        " unsure_since = unsure_since - interval '1 hour'"
    )
    await here.db.execute("update onceward.queues set parked_until = null, failures = 0")
    await here.db.execute("update onceward.work set sort_at = onceward.now()")
    here.sims.brevo.forget_keys()
    here.install(channels)  # a new process, which knows of no parking


async def test_a_mail_whose_first_send_was_not_answered_is_not_sent_again_after_a_long_pause(office, wires) -> None:
    here = await office(wires.brevo)
    here.sims.brevo.drop_after_send()
    here.sims.brevo.rate_limit(retry_after_s=3600)
    await here.start_worker()
    id = await here.send()
    await until_parked(here, id)
    await an_hour_later(here, wires.brevo)
    await here.start_worker()
    row = await here.until(id)
    assert (row["status"], len(here.sims.brevo.mails)) == ("unknown", 1)


async def test_the_window_of_a_key_counts_from_the_first_send_that_was_not_answered(office, wires) -> None:
    here = await office(wires.brevo)
    here.sims.brevo.drop_after_send()
    here.sims.brevo.rate_limit(retry_after_s=3600)
    await here.start_worker()
    id = await here.send()
    await until_parked(here, id)
    first = (await here.message(id))["unsure_since"]
    await here.db.execute("update onceward.queues set parked_until = null, failures = 0")
    await here.db.execute("update onceward.work set sort_at = onceward.now()")
    here.install([wires.brevo])
    here.sims.brevo.rate_limit(retry_after_s=3600)
    await here.start_worker()
    await until_parked(here, id)
    row = await here.message(id)
    assert (row["unsure_since"], row["sending"]) == (first, None)
    assert row["sending_since"] > first


@pytest.mark.parametrize("channel", ["slack", "sms"])
async def test_a_parked_channel_does_not_make_an_unanswered_send_look_answered(
    office, wires, monkeypatch, channel: str
) -> None:
    """The first send is taken and not answered; the channel is parked before it can be looked up."""
    here = await office()
    sender = here.install([wires.slack, wires.sms])
    to, service = {"slack": ("#ops", here.sims.slack), "sms": ("+4915112345678", here.sims.twilio)}[channel]
    service.hang(act=True)
    parking = sender._parkings.of(Line(channel))

    def park(name: str) -> None:
        """What another send of this process does that meets a throttled service before this one is claimed again."""
        if name == "after-send" and not parking._failures:
            parking._failures, parking._until = 1, time.monotonic() + 0.5

    monkeypatch.setattr(gate, "hook", park)
    await here.start_worker()
    id = await here.send(to=to, channel=channel)
    row = await here.until(id, timeout_s=20)
    attempts = await here.db.fetch("select error ->> 'type' as type from onceward.attempts order by finished_at")
    assert (row["status"], len(service.messages)) == ("success", 1)
    assert "Resting" in [each["type"] for each in attempts]


async def test_resend_by_an_operator_settles_the_earlier_send(office, wires) -> None:
    here = await office(wires.brevo)
    here.sims.brevo.drop_after_send()
    here.sims.brevo.rate_limit(retry_after_s=3600)
    await here.start_worker()
    id = await here.send()
    await until_parked(here, id)
    await an_hour_later(here, wires.brevo)
    await here.start_worker()
    await here.until(id, "unknown")
    async with here.db.transaction(role="engine") as tx:
        assert await resolve(tx, id, "resend", by="test", reason="the customer has no mail")
    assert (await here.until(id, "success", "dead_letter"))["status"] == "success"
    assert len(here.sims.brevo.mails) == 2


@pytest.mark.parametrize(
    ("sending_for_s", "loaded_s_ago", "forgotten"),
    [(None, 0, False), (100, 0, False), (950, 0, True), (850, 100, True), (-3600, 0, True)],
    ids=["never sent", "within the window", "after it", "passed since loading", "the database's clock moved back"],
)
def test_the_window_of_a_key_needs_no_clock_of_the_process(
    sending_for_s: float | None, loaded_s_ago: float, forgotten: bool
) -> None:
    message: Any = SimpleNamespace(sending_for_s=sending_for_s, loaded_at=time.monotonic() - loaded_s_ago)
    channel: Any = SimpleNamespace(repeatable_for_s=900.0)
    assert _key_forgotten(message, channel) is forgotten
