"""One endpoint's trouble is its own: breaker, auto-disable, reserved room, and everybody else's speed."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta

from onceward.outbox import upkeep
from onceward.outbox.delivery_history import deliveries
from onceward.testing import until
from onceward.testing.simulators import CustomerEndpoint

from .conftest import OutboxBench


async def make_history(bench: OutboxBench, endpoint_id, *, failed: int, delivered: int, spread: timedelta) -> None:
    """Deliveries that ended over a period up to now."""
    await bench.db.execute(
        "insert into onceward.published (id, message_id, type, fingerprint, body, created_at)"
        " select 1000000 + n, 'msg_' || n, 'order.paid', '', '{}', onceward.now() - interval '12 hours'"
        " from generate_series(1, $1::int) n",
        failed + delivered,
    )
    await bench.db.execute(
        "insert into onceward.deliveries (id, endpoint_id, type, status, failed_at, last_attempt_at, caused_by)"
        " select 2000000 + n, $1, 'order.paid', case when n <= $2 then 'failed' else 'success' end,"
        "  case when n <= $2 then onceward.now() - $4::interval * (n - 1) / greatest(1, $2 - 1) end, onceward.now(),"
        "  1000000 + n"
        " from generate_series(1, $2 + $3::int) n",
        endpoint_id,
        failed,
        delivered,
        spread,
    )
    await bench.db.execute("update onceward.endpoints set enabled_at = enabled_at - interval '1 day'")


async def test_an_endpoint_that_keeps_failing_is_warned_about_then_disabled(bench: OutboxBench) -> None:
    made = await bench.register("http://127.0.0.1:9999/", owner="dev@example.org")
    id = made.endpoint.endpoint_id
    await make_history(bench, id, failed=8, delivered=2, spread=timedelta(hours=2))
    assert await upkeep.watch(bench.db) == []
    assert await upkeep.watch(bench.db) == []
    [warning] = await bench.db.fetch("select kind, owner, details from onceward.endpoint_notices")
    assert (warning["kind"], warning["owner"], warning["details"]["failures"]) == ("warning", "dev@example.org", 8)
    await bench.db.execute("delete from onceward.deliveries; delete from onceward.published")
    await make_history(bench, id, failed=11, delivered=10, spread=timedelta(hours=1))
    assert await upkeep.watch(bench.db) == [str(id)]
    endpoint = await bench.outbox.endpoints.get(None, id)
    assert (endpoint.active, endpoint.disabled_reason) == (False, "failing")
    kinds = await bench.db.fetch("select kind from onceward.endpoint_notices order by id")
    assert [row["kind"] for row in kinds] == ["warning", "disabled"]
    await bench.outbox.endpoints.enable(None, id, actor="test")
    assert await upkeep.watch(bench.db) == [], "what failed before it was enabled no longer counts"


async def test_a_short_restart_half_the_rate_or_few_failures_do_not_disable(bench: OutboxBench) -> None:
    for failed, delivered, spread in (
        (100, 0, timedelta(minutes=1)),
        (11, 11, timedelta(hours=5)),
        (10, 0, timedelta(hours=5)),
    ):
        made = await bench.register("http://127.0.0.1:9999/")
        await make_history(bench, made.endpoint.endpoint_id, failed=failed, delivered=delivered, spread=spread)
        assert await upkeep.watch(bench.db) == []
        await bench.db.execute("delete from onceward.deliveries; delete from onceward.published")


async def test_a_delivery_counts_once_its_quick_tries_are_used_up(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    await bench.register(customer.hook_url, retry_waits_s=[1, 2, 600])
    customer.always = 404
    sent = await bench.publish()
    await bench.start_worker()
    for tries in (1, 2, 3):

        async def tried(tries: int = tries) -> dict | None:
            row = await bench.status(sent.id)
            return row if row["attempts"] >= tries else None

        row = await until(tried)
        assert (row["failed_at"] is not None) == (tries == 3)
        await bench.make_due()


async def test_a_breaker_parks_a_dead_endpoint_and_lets_it_go_on_when_it_answers(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    await bench.register(customer.hook_url)
    customer.always = 503
    sent = [await bench.publish() for _ in range(8)]
    await bench.start_worker()

    async def opened() -> int | None:
        return await bench.db.fetchval(
            "select failures from onceward.lanes where queue = 'deliveries' and open_until > clock_timestamp()"
        )

    assert await until(opened) >= 5
    customer.always = None
    await bench.make_due()

    async def well() -> bool:
        left = await bench.db.fetchval("select count(*) from onceward.deliveries where status <> 'success'")
        return left == 0 or await bench.make_due() is not None

    await until(well)
    assert await bench.db.fetchval("select max(failures) from onceward.lanes") == 0
    assert set(customer.unique) == {each.message_id for each in sent}


async def test_endpoints_that_hang_do_not_delay_the_others(make_bench, customer: CustomerEndpoint) -> None:
    bench = await make_bench(timeout_s=5.0)
    hanging = CustomerEndpoint()
    await hanging.start()
    try:
        hanging.hang(1000)
        for n in range(5):
            await bench.register(f"{hanging.hook_url}/{n}", events=["order.paid"])
        for n in range(5):
            await bench.register(f"{customer.hook_url}/{n}", events=["order.paid"])
        await bench.start_worker()
        began = time.monotonic()
        for n in range(40):
            await bench.publish(data={"n": n})

        async def healthy() -> bool:
            return len(customer.accepted) == 200

        await until(healthy, timeout_s=4)
        assert time.monotonic() - began < 4, "less than the time of a single request that hangs"
        assert hanging.accepted == []
    finally:
        await hanging.stop()


async def test_a_storm_of_retries_leaves_room_for_first_tries(make_bench, customer: CustomerEndpoint) -> None:
    bench = await make_bench(concurrency=4, retry_concurrency=4, timeout_s=5.0)
    hanging = CustomerEndpoint()
    await hanging.start()
    try:
        for n in range(4):
            await bench.register(f"{hanging.hook_url}/{n}", events=["order.refunded"])
        await bench.register(customer.hook_url, events=["order.paid"])
        for _ in range(10):
            await bench.publish("order.refunded")
        await bench.db.execute(
            "update onceward.work set queue = 'deliveries-retry', task = 'outbox.redeliver', attempts = 1"
        )
        hanging.hang(1000)
        await bench.start_worker()

        async def storming() -> bool:
            return len(hanging.received) >= 4

        await until(storming)
        sent = await bench.publish("order.paid")
        assert (await bench.settled(sent.id, timeout_s=3))["status"] == "success"
    finally:
        await hanging.stop()


async def test_a_rate_is_kept_over_first_tries_and_later_ones(bench: OutboxBench, customer: CustomerEndpoint) -> None:
    await bench.register(customer.hook_url, rate_per_s=20)
    customer.fail_next(2, status=500)
    for _ in range(8):
        await bench.publish()
    await bench.start_worker()
    began = time.monotonic()

    async def enough() -> bool:
        return len(customer.received) >= 6

    await until(enough)
    assert time.monotonic() - began >= 5 / 20 * 0.8
    assert await bench.db.fetchval("select count(*) from onceward.work where queue = 'deliveries-retry'") == 0


async def test_deliveries_that_hang_do_not_occupy_the_places_of_others(make_bench, customer: CustomerEndpoint) -> None:
    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    bench = await make_bench(concurrency=4, timeout_s=60.0)
    await bench.register(f"http://127.0.0.1:{port}/hangs", max_in_flight=4)
    for _ in range(4):
        await bench.publish()
    await bench.start_worker()
    hanging = "select count(*) = 4 from onceward.work where lease is not null"
    await until(lambda: bench.db.fetchval(hanging))
    await bench.register(customer.hook_url)
    began = time.monotonic()
    for _ in range(10):
        await bench.publish()
    arrived = "select count(*) = 10 from onceward.deliveries where status = 'success'"
    await until(lambda: bench.db.fetchval(arrived), timeout_s=30)
    assert time.monotonic() - began < 30
    server.close()


async def test_a_delivery_that_keeps_timing_out_always_shows_its_next_attempt(
    make_bench, customer: CustomerEndpoint
) -> None:
    bench = await make_bench(timeout_s=0.2)
    customer.hang(1000)
    await bench.register(customer.hook_url)
    await bench.start_worker()
    began = await bench.db.fetchval("select onceward.now()")
    await bench.publish()
    seen: dict[str, datetime | None] = {}

    async def next_of(status: str) -> datetime | None:
        [row] = (await deliveries(bench.db, None)).rows
        return row.next_attempt_at if row.status == status else None

    async def shown(status: str) -> bool:
        seen[status] = await next_of(status)
        return seen[status] is not None

    await until(lambda: shown("processing"))
    await until(lambda: shown("pending"))
    for status, due in seen.items():
        assert due is not None, status
        assert due >= began, status
    await bench.db.execute("update onceward.work set sort_at = 'infinity'")
    assert await next_of("pending") is not None, "the time is not known, but there will be another attempt"
    await bench.db.execute("update onceward.work set dead_reason = 'expired', dead_at = onceward.now()")
    assert await next_of("pending") is None
