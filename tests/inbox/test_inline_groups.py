"""Concurrent inline requests share a commit. Each gets its own answer, and a failure costs only its owner."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from onceward import Event, Onceward, Permanent, Tx
from onceward.inbox import inline_groups
from onceward.testing import Crash, until
from onceward.work import gate
from onceward.work.commit_sharing import Experience

EFFECTS = "create table effects (id text, amount int, org text default current_setting('onceward.cause')); grant all on effects to onceward_app"


@pytest.fixture
def one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """All requests of a test wait for one place, and groups may become as old as this machine is slow."""
    monkeypatch.setattr(inline_groups, "MOST_PLACES", 1)
    monkeypatch.setattr(inline_groups, "PATIENCE_S", 20.0)
    monkeypatch.setattr("onceward.work.commit_sharing.LONGEST_S", 1000.0)
    monkeypatch.setattr(Experience, "mean_s", property(lambda _self: 0.0, lambda _self, _value: None), raising=False)


def shop(bad: str = "") -> Onceward:
    app = Onceward("shop")

    @app.on("stripe", "charge.succeeded", retry=[])
    async def charge(event: Event, tx: Tx) -> dict[str, str]:
        await tx.execute("insert into effects values ($1, 1)", event.event_id)
        if event.event_id == "evt_4":
            match bad:
                case "raises":
                    raise RuntimeError("no luck")
                case "refuses":
                    raise Permanent("not this one")
                case "swallows":
                    try:
                        await tx.execute("select 1 / 0")
                    except Exception:
                        return {"for": "nobody"}
                case "commits":
                    await tx.conn.execute("commit")
                case "cancels":
                    raise asyncio.CancelledError
                case "hangs":
                    inline_groups.PATIENCE_S = 0.01  # the fixture restores it
                    await asyncio.sleep(0.2)
        return {"for": event.event_id}

    return app


async def test_requests_that_wait_share_a_commit_and_get_their_own_answers(one_place: None, office) -> None:
    here = await office(shop())
    await here.db.execute(EFFECTS)
    await here.source(mode="inline")
    replies = await asyncio.gather(*(here.post(fields={"id": f"evt_{n}"}) for n in range(12)))
    assert [reply.json for reply in replies] == [{"status": "ok", "for": f"evt_{n}"} for n in range(12)]
    assert await here.db.fetchval("select count(distinct xmin::text) from effects") < 12
    assert await here.db.fetchval("select count(*) from onceward.attempts where shared > 1") > 1
    causes = await here.db.fetchval("select count(distinct org) from effects")
    assert causes == 12, "each handler has its own cause"
    assert await here.db.fetchval("select count(*) from onceward.webhook_events where status = 'success'") == 12
    again = await asyncio.gather(*(here.post(fields={"id": f"evt_{n % 3}"}) for n in range(9)))
    assert [reply.json["for"] for reply in again] == [f"evt_{n % 3}" for n in range(9)]
    assert await here.db.fetchval("select count(*) from effects") == 12


@pytest.mark.parametrize(
    ("bad", "status"),
    [("raises", 500), ("refuses", 400), ("swallows", 500), ("commits", 500), ("cancels", 500), ("hangs", 200)],
)
async def test_a_failure_costs_only_its_own_request(one_place: None, office, bad: str, status: int) -> None:
    here = await office(shop(bad))
    await here.db.execute(EFFECTS)
    await here.source(mode="inline")
    replies = await asyncio.gather(*(here.post(fields={"id": f"evt_{n}"}) for n in range(9)))
    assert [reply.status for reply in replies] == [status if n == 4 else 200 for n in range(9)]
    assert [reply.json.get("for") for n, reply in enumerate(replies) if n != 4] == [
        f"evt_{n}" for n in range(9) if n != 4
    ]
    rows = await here.db.fetch("select id from effects order by id")
    kept = [f"evt_{n}" for n in range(9) if n != 4 or bad in ("hangs", "commits")]
    assert [row["id"] for row in rows] == kept
    charged = "select count(*) from onceward.attempts where outcome <> 'success'"
    assert await here.db.fetchval(charged) == (status != 200)


async def test_requests_whose_handlers_lock_the_same_row_begin_two_at_a_time_and_share(office) -> None:
    app = Onceward("shop")
    begun: set[str] = set()
    at_once: list[int] = []

    @app.on("stripe", "charge.succeeded", retry=[])
    async def charge(event: Event, tx: Tx) -> dict[str, int]:
        begun.add(event.event_id)
        at_once.append(len(begun))
        try:
            await tx.execute("select from hot for update")
            if event.event_id.startswith("slow"):
                await asyncio.sleep(0.1)
            return {"n": await tx.fetchval("update hot set n = n + 1 returning n")}
        finally:
            begun.discard(event.event_id)

    here = await office(app)
    await here.db.execute("create table hot (n int); insert into hot values (0); grant all on hot to onceward_app")
    await here.source(mode="inline")
    with capture_logs() as logs:
        slow = await asyncio.gather(*(here.post(fields={"id": f"slow_{n}"}) for n in range(8)))
    limited = [(each["task"], each["at_once"]) for each in logs if each["event"] == "groups.limited"]
    assert limited == [("stripe/charge.succeeded", 2)]
    assert max(at_once) > 2
    at_once.clear()
    quick = await asyncio.gather(*(here.post(fields={"id": f"evt_{n}"}) for n in range(24)))
    assert max(at_once) <= 3, "a limit of two, and perhaps one more to try"
    assert await here.db.fetchval("select max(shared) from onceward.attempts") > 2, (
        "although the first ones had waited long"
    )
    assert sorted(reply.json["n"] for reply in (*slow, *quick)) == list(range(1, 33)), "each has its own answer"


async def test_a_cancelled_request_leaves_the_queue_and_its_place_goes_to_the_next(one_place: None, office) -> None:
    app = Onceward("shop")
    started, go = asyncio.Event(), asyncio.Event()

    @app.on("stripe", "charge.succeeded", retry=[])
    async def charge(event: Event, tx: Tx) -> dict[str, str]:
        started.set()
        await go.wait()
        return {"for": event.event_id}

    here = await office(app)
    await here.source(mode="inline")
    requests = [asyncio.create_task(here.post(fields={"id": f"evt_{n}"})) for n in range(6)]
    await started.wait()
    for n in (2, 5):
        requests[n].cancel()
    go.set()
    replies = await asyncio.gather(*requests, return_exceptions=True)
    assert [isinstance(reply, asyncio.CancelledError) for reply in replies] == [n in (2, 5) for n in range(6)]
    assert (await here.post(fields={"id": "evt_7"})).json["for"] == "evt_7", "the place is free again"


async def test_a_crash_at_any_gate_of_a_group_redelivered_equals_the_undisturbed_run(one_place: None, office) -> None:
    here = await office(shop())
    await here.db.execute(EFFECTS)
    await here.source(mode="inline")
    passed: list[str] = []
    crash_at = 0

    def crash(name: str) -> None:
        passed.append(name)
        if len(passed) == crash_at:
            raise Crash(name)

    async def deliver(id: str) -> None:
        for _ in range(5):
            try:
                if (await here.post(fields={"id": id})).status == 200:
                    return
            except Crash:
                continue
        raise AssertionError("never delivered")

    async def run() -> list[tuple[str, int]]:
        passed.clear()
        await here.db.execute("truncate effects, onceward.webhook_events, onceward.attempts")
        gate.hook = crash
        try:
            await asyncio.gather(*(deliver(f"evt_{n}") for n in range(3)))
        finally:
            gate.hook = None
        return [tuple(row) for row in await here.db.fetch("select id, count(*) from effects group by id order by id")]

    expected = await run()
    gates = list(passed)
    assert expected == [(f"evt_{n}", 1) for n in range(3)]
    assert {"inline-inserted", "inline-joined", "inline-before-commit", "inline-after-commit"} <= set(gates)
    for crash_at in range(1, len(gates) + 1):
        assert await run() == expected, f"a crash at gate {crash_at} ({gates[crash_at - 1]}) changed the result"


async def test_a_client_that_goes_away_costs_nobody_else(one_place: None, office) -> None:
    app = Onceward("shop")
    begun, goes_on = asyncio.Event(), asyncio.Event()

    @app.on("stripe", "charge.succeeded")
    async def charge(event: Event, tx: Tx) -> dict[str, str]:
        await tx.execute("insert into effects values ($1, 1)", event.event_id)
        begun.set()
        await goes_on.wait()
        return {"for": event.event_id}

    here = await office(app)
    await here.db.execute(EFFECTS)
    await here.source(mode="inline")
    posts = [asyncio.create_task(here.post(fields={"id": f"evt_{n}"})) for n in range(6)]
    await begun.wait()
    posts[0].cancel()
    posts[3].cancel()
    goes_on.set()
    replies: list[Any] = await asyncio.gather(*posts, return_exceptions=True)
    assert [reply.json["for"] for n, reply in enumerate(replies) if n not in (0, 3)] == [
        "evt_1",
        "evt_2",
        "evt_4",
        "evt_5",
    ]
    rows = await here.db.fetch("select id, count(*) from effects group by id having count(*) > 1")
    assert rows == []


@pytest.mark.parametrize("joins", [True, False])
async def test_customers_take_turns_while_requests_wait(one_place: None, office, monkeypatch, joins: bool) -> None:
    """A has 20 requests that wait, B one: it comes after a turn of A. Whether they join a group or get a place."""
    app = Onceward("shop")
    order: list[str] = []
    go = asyncio.Event()

    @app.on("stripe", "charge.succeeded", retry=[])
    async def charge(event: Event, tx: Tx) -> None:
        order.append(event.event_id)
        await go.wait()

    if not joins:
        monkeypatch.setattr(inline_groups.Sharing, "fits", lambda *_args, **_more: False)
    here = await office(app)
    for name in ("a", "b"):
        await here.source(name, provider="stripe", mode="inline")
    waiting = here.inbox.receiver._inline._groups._waiting
    posts = [asyncio.create_task(here.post(name="a", fields={"id": f"a{n}"})) for n in range(21)]
    await until(lambda: len(waiting) == 20)
    posts.append(asyncio.create_task(here.post(name="b", fields={"id": "b"})))
    await until(lambda: len(waiting) == 21)
    go.set()
    replies = await asyncio.gather(*posts)
    assert {reply.status for reply in replies} == {200}
    assert order.index("b") == 2
