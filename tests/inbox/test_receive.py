"""From the sender to the handler: committed before it is answered, handled once, a duplicate gets the first result."""

from __future__ import annotations

import asyncio

import orjson
from pydantic import BaseModel
from structlog.testing import capture_logs

from onceward import Event, Onceward, Permanent, Tx
from tests.inbox.conftest import SECRET, call


class Charge(BaseModel):
    id: str
    amount: int


def shop() -> Onceward:
    app = Onceward("shop")

    @app.on("stripe", "charge.succeeded")
    async def complete(event: Event[Charge], tx: Tx) -> dict[str, object]:
        await tx.execute("insert into effects values ($1, $2)", event.id, event.data.amount)
        return {"charged": event.data.amount}

    return app


EFFECTS = "create table effects (event bigint, amount int); grant all on effects to onceward_app"


async def test_an_event_is_stored_answered_and_handled_once(office) -> None:
    here = await office(shop())
    await here.db.execute(EFFECTS)
    await here.source()
    reply = await here.post(fields={"data.object.amount": 700})
    assert reply.status == 200
    assert reply.json["status"] == "accepted"
    seq = reply.json["id"]
    row = await here.event(seq)
    assert (row["status"], row["type"], row["provider"]) == ("pending", "charge.succeeded", "stripe")
    assert orjson.loads(row["raw"]) == row["payload"]
    assert row["signature"].startswith("t=")
    await here.start_worker()
    done = await here.status(seq, "success")
    assert (done["result"], done["attempts"]) == ({"charged": 700}, 1)
    assert [tuple(each) for each in await here.db.fetch("select * from effects")] == [(seq, 700)]
    assert await here.db.fetchval("select count(*) from onceward.work") == 0


async def test_a_duplicate_causes_nothing_and_gets_the_first_result(office) -> None:
    here = await office(shop())
    await here.db.execute(EFFECTS)
    await here.source()
    fields = {"id": "evt_twice", "data.object.amount": 5}
    first = await here.post(fields=fields)
    again = await here.post(fields=fields)
    assert again.status == 200
    assert again.json == {"status": "accepted", "id": first.json["id"]}
    assert again.headers["onceward-duplicate"] == "true"
    await here.start_worker()
    await here.status(first.json["id"], "success")
    last = await here.post(fields=fields)
    assert last.json == {"status": "ok", "charged": 5}
    assert await here.db.fetchval("select count(*) from effects") == 1


async def test_what_arrives_together_is_stored_together_each_as_itself(office) -> None:
    """Two sources, one of them ordered, several types, an id that is not ASCII, one without a signature, one sent twice."""
    here = await office(shop())
    await here.source()
    await here.source("second", provider="stripe", ordering=True)
    unsigned = {"allow_unsigned": True, "id_header": "x-id", "type_header": "x-type"}
    await here.source("open", provider="none", secret="", options=unsigned)
    wanted = [("stripe", f"charge.{n}", f"evt_{n}é") for n in range(4)] + [
        ("second", "a.b", f"evt_{n}é") for n in range(4)
    ]
    twice = orjson.dumps({"id": "evt_twice", "type": "charge.0", "data": {"object": {}}})
    with capture_logs() as logs:
        first, again, *replies = await asyncio.gather(
            here.send(twice),
            here.send(twice),
            *(here.post(type, name=name, fields={"id": id}) for name, type, id in wanted),
            call(here.inbox.receiver, "/webhooks/open", b'{"n": 1}', {"x-id": "7", "x-type": "odd"}),
        )
    assert logs == []
    assert await here.db.fetchval("select count(distinct xmin::text) from onceward.webhook_events") == 1, "one commit"
    assert first.json == again.json
    assert [reply.status for reply in replies] == [200] * 9
    for (name, type, id), reply in zip([*wanted, ("open", "odd", "7")], replies, strict=True):
        row = await here.event(reply.json["id"])
        lane = await here.db.fetchval("select lane from onceward.work where id = $1", row["seq"])
        provider = "none" if name == "open" else "stripe"
        assert (row["event_id"], row["type"], row["provider"]) == (id, type, provider)
        assert orjson.loads(row["raw"]) == row["payload"]
        assert row["headers"] == ({} if name == "open" else {"content-type": "application/json"})
        assert (row["signature"] is None, lane is not None) == (name == "open", name == "second")
    assert await here.db.fetchval("select count(*) from onceward.webhook_events") == 10


async def test_inline_answers_with_the_result_and_a_duplicate_with_the_same(office) -> None:
    here = await office(shop())
    await here.db.execute(EFFECTS)
    await here.source(mode="inline")
    fields = {"id": "evt_inline", "data.object.amount": 31}
    first = await here.post(fields=fields)
    assert (first.status, first.json) == (200, {"status": "ok", "charged": 31})
    again = await here.post(fields=fields)
    assert (again.status, again.json) == (200, {"status": "ok", "charged": 31})
    assert await here.db.fetchval("select count(*) from effects") == 1
    assert await here.db.fetchval("select count(*) from onceward.work") == 0
    row = await here.db.fetchrow("select status, attempts, result from onceward.webhook_events")
    assert tuple(row) == ("success", 1, {"charged": 31})


async def test_inline_failure_keeps_the_event_for_the_workers_and_answers_500(office) -> None:
    app = Onceward("shop")
    tries: list[int] = []

    @app.on("stripe", "charge.succeeded", retry=[0.01])
    async def fragile(event: Event, tx: Tx) -> str:
        tries.append(event.attempt)
        await tx.execute("insert into effects values ($1, 1)", event.id)
        if len(tries) == 1:
            raise RuntimeError("no luck")
        return "done"

    here = await office(app)
    await here.db.execute(EFFECTS)
    await here.source(mode="inline")
    reply = await here.post()
    assert reply.status == 500
    assert await here.db.fetchval("select count(*) from effects") == 0
    await here.start_worker()
    row = await here.status(reply.json["id"], "success")
    assert (row["attempts"], row["result"]) == (2, "done")
    assert tries == [1, 2]
    assert await here.db.fetchval("select count(*) from effects") == 1


async def test_a_permanent_refusal_is_4xx_once_then_200_with_the_stored_result(office) -> None:
    app = Onceward("shop")

    @app.on("stripe", "charge.succeeded")
    async def refuse(event: Event, tx: Tx) -> None:
        raise Permanent("no such checkout", result={"error": "unknown checkout"}, status=422)

    here = await office(app)
    await here.source(mode="inline")
    first = await here.post(fields={"id": "evt_no"})
    again = await here.post(fields={"id": "evt_no"})
    assert (first.status, first.json["error"]) == (422, "unknown checkout")
    assert (again.status, again.json["error"]) == (200, "unknown checkout")
    row = await here.db.fetchrow("select status, error from onceward.webhook_events")
    assert row["status"] == "dead_letter"
    assert row["error"].startswith("permanent")
    assert await here.db.fetchval("select dead_reason from onceward.work") == "permanent"


async def test_two_concurrent_duplicates_inline_cause_one_effect_and_get_one_result(office) -> None:
    here = await office(shop())
    await here.db.execute(EFFECTS)
    await here.source(mode="inline")
    replies = await asyncio.gather(*(here.post(fields={"id": "evt_race", "data.object.amount": 9}) for _ in range(8)))
    assert {reply.status for reply in replies} == {200}
    assert all(reply.json == {"status": "ok", "charged": 9} for reply in replies)
    assert await here.db.fetchval("select count(*) from effects") == 1


async def test_a_payload_that_does_not_fit_is_a_dead_letter_at_once(office) -> None:
    here = await office(shop())
    await here.db.execute(EFFECTS)
    await here.source()
    reply = await here.post(fields={"data.object.amount": "many"})
    await here.start_worker()
    row = await here.status(reply.json["id"], "dead_letter")
    assert row["attempts"] == 1
    assert row["error"].startswith("payload_invalid: PayloadInvalid: amount:")
    assert "many" not in row["error"]


async def test_bad_requests_are_turned_away_with_a_reason_and_leave_no_event(office) -> None:
    here = await office(shop())
    await here.source(max_body_bytes=2048)
    body = b'{"id":"evt_1","type":"charge.succeeded"}'
    good = here.signed("stripe", body)
    stale = here.signed("stripe", body, age_s=301)
    broken = b'{"id":'
    cases = [
        ("/webhooks/stripe", body, {"stripe-signature": good["stripe-signature"][:-64] + "0" * 64}, 401),
        ("/webhooks/stripe", body, {}, 401),
        ("/webhooks/payments/stripe", body, {}, 400),
        ("/webhooks/stripe", body, stale, 400),
        ("/webhooks/stripe", broken, here.signed("stripe", broken), 400),
        ("/webhooks/nobody", body, good, 404),
        ("/webhooks/stripe", b"x" * 2049, good, 413),
    ]
    for path, sent, headers, status in cases:
        reply = await call(here.inbox, path, sent, headers)
        assert reply.status == status, (path, headers, reply)
    assert (await call(here.inbox, "/webhooks/stripe", b"", method="PUT")).status == 405
    assert (await call(here.inbox, "/webhooks/stripe", pieces=[b"x" * 1500] * 2)).status == 413
    assert await here.db.fetchval("select count(*) from onceward.webhook_events") == 0
    await here.inbox.rejects.flush()
    rows = await here.db.fetch("select reason, ip, bytes from onceward.webhook_rejects")
    assert {row["ip"] for row in rows} == {"203.0.113.9"}
    assert "stale_timestamp" in {row["reason"] for row in rows}


async def test_several_secrets_are_live_at_once(office) -> None:
    from onceward.inbox.sources import rotate
    from tests.inbox.conftest import BOX

    here = await office(shop())
    await here.source()
    body = b'{"id":"evt_1","type":"ping"}'
    old = here.signed("stripe", body)
    async with here.db.transaction(role="engine") as tx:
        await rotate(tx, BOX, "stripe", SECRET + "_new", actor="test")
    await here.inbox.catalog.refresh()
    assert (await call(here.inbox, "/webhooks/stripe", body, old)).status == 200
    from datetime import timedelta

    async with here.db.transaction(role="engine") as tx:
        await rotate(tx, BOX, "stripe", SECRET + "_newer", overlap=timedelta(0), actor="test")
    await here.inbox.catalog.refresh()
    assert (await call(here.inbox, "/webhooks/stripe", body, old)).status == 401
