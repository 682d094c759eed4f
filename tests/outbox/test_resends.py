"""Sending again: durable, at a rate, watched, cancelled; and what was missed while an endpoint was off."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onceward.outbox import Invalid, NotResent, resends
from onceward.testing import until
from onceward.testing.simulators import CustomerEndpoint
from onceward.trust import NotFound

from .conftest import ACTOR, OutboxBench

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
SOON = timedelta(minutes=5)


async def step_until_done(bench: OutboxBench, id: int) -> resends.Resend:
    """Every step at once, as if each second had passed."""

    async def done() -> resends.Resend | None:
        await bench.db.execute("update onceward.resends set stepped_at = null")
        await bench.outbox.step_resends()
        found = await resends.get(bench.db, None, id)
        return found if found.state != "running" else None

    return await until(done)


async def test_recover_sends_what_failed_and_what_was_missed_while_disabled(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    made = await bench.register(customer.hook_url, retry_waits_s=[])
    id = made.endpoint.endpoint_id
    await bench.start_worker()
    arrived = await bench.publish(data={"n": 0})
    await bench.settled(arrived.id)
    customer.always = 500
    failed = await bench.publish(data={"n": 1})
    assert (await bench.settled(failed.id))["status"] == "failed"
    await bench.outbox.endpoints.disable(None, id, actor=ACTOR)
    await bench.publish(data={"n": 2})
    await bench.publish("user.registered", {"n": 3})
    customer.always = None
    with pytest.raises(NotResent, match="enable it first"):
        await resends.start(bench.db, None, verb="recover", endpoint_id=id, since=LONG_AGO, actor=ACTOR)
    await bench.outbox.endpoints.enable(None, id, actor=ACTOR)
    started = await resends.start(
        bench.db, None, verb="recover", endpoint_id=id, since=LONG_AGO, until=datetime.now(UTC) + SOON, actor=ACTOR
    )
    assert started.matched == 1
    finished = await step_until_done(bench, started.id)
    assert (finished.state, finished.resent, finished.skipped) == ("done", 3, 0)

    async def all_here() -> bool:
        return {one.json["data"]["n"] for one in customer.accepted} == {0, 1, 2, 3}

    await until(all_here)
    assert sum(one.json["data"]["n"] == 0 for one in customer.accepted) == 1, "what had arrived is not sent again"


async def test_replay_takes_what_fits_at_its_rate_and_can_be_cancelled(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    await bench.register(customer.hook_url)
    await bench.start_worker()
    for n in range(6):
        await bench.settled((await bench.publish("order.paid" if n % 2 else "order.refunded", {"n": n})).id)
    customer.accepted.clear()
    started = await resends.start(
        bench.db,
        None,
        verb="replay",
        since=LONG_AGO,
        until=datetime.now(UTC) + SOON,
        types=["order.paid"],
        rate_per_s=1,
        actor=ACTOR,
    )
    assert started.matched == 3
    assert await bench.outbox.step_resends()
    assert not await bench.outbox.step_resends(), "one a second: the next step is not due yet"
    assert (await resends.get(bench.db, None, started.id)).resent == 1
    assert await resends.cancel(bench.db, None, started.id, actor=ACTOR)
    assert not await resends.cancel(bench.db, None, started.id, actor=ACTOR)
    await bench.db.execute("update onceward.resends set stepped_at = null")
    assert not await bench.outbox.step_resends()

    async def one_here() -> bool:
        return len(customer.accepted) == 1

    await until(one_here)
    [listed] = await resends.listed(bench.db, None)
    assert (listed.state, listed.resent) == ("cancelled", 1)


async def test_a_resend_belongs_to_its_organization(bench: OutboxBench, customer: CustomerEndpoint) -> None:
    ours, theirs = await bench.organization("ours"), await bench.organization("theirs")
    made = await bench.register(customer.hook_url, ours)
    sent = await bench.publish(organization=ours)
    row = await bench.status(sent.id)
    with pytest.raises(NotFound):
        await resends.resend_one(bench.db, theirs, row["id"], actor=ACTOR)
    with pytest.raises(NotFound):
        await resends.start(
            bench.db, theirs, verb="recover", endpoint_id=made.endpoint.endpoint_id, since=LONG_AGO, actor=ACTOR
        )
    started = await resends.start(
        bench.db, theirs, verb="replay", since=LONG_AGO, until=datetime.now(UTC) + SOON, actor=ACTOR
    )
    assert started.matched == 0
    with pytest.raises(NotFound):
        await resends.get(bench.db, ours, started.id)
    assert not await resends.cancel(bench.db, ours, started.id, actor=ACTOR)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"since": datetime(2026, 1, 1)}, "since"),
        ({"since": datetime(2999, 1, 1, tzinfo=UTC)}, "since"),
        ({"rate_per_s": 0}, "rate_per_s"),
        ({"statuses": ["done"]}, "statuses"),
        ({"verb": "recover"}, "endpoint_id"),
    ],
)
async def test_a_bad_filter_says_which_field(bench: OutboxBench, options: dict, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        await resends.start(bench.db, None, **{"verb": "replay", "since": LONG_AGO, "actor": ACTOR, **options})
    assert caught.value.field == field


async def test_what_is_under_way_is_not_sent_a_second_time(bench: OutboxBench, customer: CustomerEndpoint) -> None:
    await bench.register(customer.hook_url)
    sent = await bench.publish()
    row = await bench.status(sent.id)
    await bench.db.execute("update onceward.work set lease = 1 where id = $1", row["id"])
    with pytest.raises(NotResent, match="being sent now"):
        await resends.resend_one(bench.db, None, row["id"], actor=ACTOR)
