"""A flood from one source delays no other source, and limits on requests are answered 429, counted and shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4

import pytest

from onceward import Event, Onceward, Tx
from onceward.inbox.admission import Admission, LimitName, RequestLimited, RequestLimits, leave
from onceward.inbox.source import Source
from onceward.inbox.source_limits import limit, rejected
from onceward.telemetry.metrics import REGISTRY
from onceward.trust import create_organization
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider
from tests.inbox.conftest import Office, Reply, office
from tests.web.test_protocol import Front, answer, event, front
from tests.work.claims import Claims

__all__ = ["front", "office"]

MakeOffice = Callable[[Onceward], Awaitable[Office]]


def source(**more: object) -> Source:
    config = SourceConfig(provider="stripe", secrets=("whsec_of_the_tests",))
    values = {"webhook_id": uuid4(), "name": "any", "organization": None, "mode": "ack", **more}
    return Source(provider=get_provider("stripe"), config=config, **values)  # pyright: ignore[reportArgumentType]


async def test_while_one_source_floods_the_requests_of_another_are_in_the_next_commit(office: MakeOffice) -> None:
    here = await office(Onceward("flooded"))
    await here.source("noisy", provider="stripe")
    await here.source("quiet", provider="stripe")
    answered: list[int] = []

    async def post(name: str, number: int) -> None:
        assert (await here.send(event(number), name=name)).status == 200
        answered.append(number)

    flood = [asyncio.create_task(post("noisy", n)) for n in range(600)]
    await asyncio.gather(*flood, *(asyncio.create_task(post("quiet", n)) for n in (1000, 1001, 1002)))
    last = max(n for n, number in enumerate(answered) if number >= 1000)
    assert last < 400, "they were the last to come, and are answered with the first half"


async def test_an_event_waits_for_its_share_of_a_flood_of_events(office: MakeOffice) -> None:
    app = Onceward("flooded")

    @app.on("stripe", "charge.succeeded")
    async def note(event: Event, tx: Tx) -> None: ...

    here = await office(app)
    owners: dict[str, UUID] = {}
    async with here.db.transaction(role="engine") as tx:
        for name in ("noisy", "quiet"):
            owners[name] = (await create_organization(tx, name, actor="test")).organization_id
    for name, owner in owners.items():
        await here.source(name, provider="stripe", organization=owner)
    for fair in (True, False):
        for n in range(60):
            await here.send(event(n + 100 * fair), name="noisy")
        claims = Claims(here.db, "events", fair=fair)
        assert set(await claims.next(5)) == {owners["noisy"]}
        await here.send(event(1000 + fair), name="quiet")
        passed = await claims.before(owners["quiet"], 5)
        assert passed <= 20 if fair else passed >= 45
        await here.db.execute("truncate onceward.work")


async def test_a_flood_leaves_room_for_others_and_gets_429(office: MakeOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    here = await office(Onceward("full"))
    await here.source("noisy", provider="stripe")
    await here.source("quiet", provider="stripe")
    monkeypatch.setattr(here.inbox.receiver.commits, "_most_waiting", 20)
    flood = [asyncio.create_task(here.send(event(n), name="noisy")) for n in range(50)]
    quiet = asyncio.create_task(here.send(event(1), name="quiet"))
    replies = await asyncio.gather(*flood)
    assert {reply.status for reply in replies} == {200, 429}
    refused = next(reply for reply in replies if reply.status == 429)
    assert (refused.json["reason"], refused.headers["retry-after"]) == ("share", "1")
    assert (await quiet).status == 200


async def test_limits_of_a_source_are_answered_429_counted_and_shown(front: Front) -> None:
    here = front.here
    id = await here.source("stripe-eu", provider="stripe", requests_per_s=2.0)
    reader, writer = await front.connect()
    statuses: list[int] = []
    for n in range(3):
        writer.write(front.wire(event(n), name="stripe-eu"))
        status, headers, body = await answer(reader)
        statuses.append(status)
        if status == 429:
            assert b"source_rate" in body
            assert "retry-after" in str(headers).lower()
    assert statuses == [200, 200, 429]
    reply = await here.send(event(9), name="stripe-eu")
    assert (reply.status, reply.json["reason"]) == (429, "source_rate"), "both paths count together"
    labels = {"webhook_id": str(id), "provider": "stripe", "reason": "source_rate"}
    assert REGISTRY.get_sample_value("onceward_webhook_rejected_total", labels) == 2
    await here.inbox.rejects.flush()
    async with here.db.acquire() as conn:
        [row] = await rejected(conn, "stripe-eu")
    assert (row.reason, row.status, row.requests) == ("source_rate", 429, 2)
    async with here.db.transaction(role="engine") as tx:
        await limit(tx, "stripe-eu", requests_per_s=None, requests_at_once=None, actor="test")
    await here.inbox.catalog.refresh()
    assert (await here.send(event(9), name="stripe-eu")).status == 200
    writer.close()


async def test_requests_at_once_are_limited_while_a_handler_runs(office: MakeOffice) -> None:
    app = Onceward("slow")
    began, end = asyncio.Event(), asyncio.Event()

    @app.on("stripe", "charge.succeeded")
    async def handle(event: Event, tx: Tx) -> None:
        began.set()
        await end.wait()

    here = await office(app)
    await here.source("slow", provider="stripe", mode="inline", requests_at_once=1)
    await here.source("other", provider="stripe", mode="inline")
    first = asyncio.create_task(here.send(event(1), name="slow"))
    await began.wait()
    second = await here.send(event(2), name="slow")
    assert (second.status, second.json["reason"]) == (429, "source_at_once")
    other = asyncio.create_task(here.send(event(3), name="other"))
    end.set()
    assert [(await each).status for each in (first, other)] == [200, 200]
    assert (await here.send(event(2), name="slow")).status == 200


async def test_handlers_in_requests_leave_room_for_other_organizations(
    office: MakeOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Onceward("shared_room")
    end = asyncio.Event()

    @app.on("stripe", "charge.succeeded")
    async def handle(event: Event, tx: Tx) -> None:
        await end.wait()

    here = await office(app)
    async with here.db.transaction(role="engine") as tx:
        organization = (await create_organization(tx, "noisy", actor="test")).organization_id
    for name in ("one", "two"):
        await here.source(name, provider="stripe", mode="inline", organization=organization)
    await here.source("quiet", provider="stripe", mode="inline")
    monkeypatch.setattr(here.inbox.receiver._inline, "_most_at_once", 4)  # pyright: ignore[reportPrivateUsage]
    flood = [asyncio.create_task(here.send(event(n), name=("one", "two")[n % 2])) for n in range(6)]
    quiet = asyncio.create_task(here.send(event(10), name="quiet"))
    async with asyncio.timeout(10):
        done, _ = await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
    assert {each.result().status for each in done} == {429}
    end.set()
    replies: list[Reply] = await asyncio.gather(*flood)
    assert sorted(reply.status for reply in replies) == [200, 200, 429, 429, 429, 429]
    assert (await quiet).status == 200


def test_a_rate_refills_and_forged_requests_do_not_use_it_up() -> None:
    now = [100.0]
    admission = Admission(clock=lambda: now[0])
    one = source(requests_per_s=0.5)
    for _ in range(10):
        admission.check(one)  # a request that is not authentic gets no further
    admission.enter(one)
    with pytest.raises(RequestLimited) as refused:
        admission.check(one)
    assert refused.value.retry_after_s == 2
    now[0] += 2.0
    admission.check(one)


def test_the_sources_of_an_organization_share_its_limits() -> None:
    admission = Admission(RequestLimits(at_once=2))
    organization = uuid4()
    sources = [source(organization=organization) for _ in range(2)]
    entered = [admission.enter(each) for each in sources]
    with pytest.raises(RequestLimited) as refused:
        admission.enter(sources[0])
    assert refused.value.limit is LimitName.ORGANIZATION_AT_ONCE
    assert not admission.applies_to(source())
    admission.enter(source(organization=uuid4()))
    leave(entered[0])
    admission.enter(sources[1])


async def test_a_flood_of_one_event_is_one_row_for_postgresql(office: MakeOffice) -> None:
    here = await office(Onceward("repeated"))
    await here.source("noisy", provider="stripe")
    before = await here.db.fetchval("select nextval('onceward.ids')")
    replies = await asyncio.gather(*(here.send(event(1), name="noisy") for _ in range(100)))
    assert {reply.status for reply in replies} == {200}
    assert sum("onceward-duplicate" not in reply.headers for reply in replies) == 1
    assert len({reply.json["id"] for reply in replies}) == 1
    # Each commit offers the event once, and each offer takes a number.
    assert await here.db.fetchval("select nextval('onceward.ids')") - before <= 5
