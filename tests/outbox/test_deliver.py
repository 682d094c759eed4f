"""From publish to the customer's endpoint: what arrives, what it is signed with, what an answer means."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from datetime import timedelta
from typing import ClassVar

import pytest
import standardwebhooks
import svix

from onceward.outbox import Invalid, OutboxOptions, endpoints, guarded_client, upkeep
from onceward.testing import until
from onceward.testing.simulators import CustomerEndpoint
from onceward.trust import SecretBox
from onceward.webhooks.provider import Rejected, Request, SourceConfig
from onceward.webhooks.registry import get_provider

from .conftest import OutboxBench


async def test_a_published_event_arrives_signed_for_both_libraries(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    made = await bench.register(customer.hook_url)
    await bench.start_worker()
    sent = await bench.publish("order.paid", {"amount": 4200})
    row = await bench.settled(sent.id)
    assert (row["status"], row["attempts"], row["response_status"]) == ("success", 1, 200)
    [request] = customer.received
    body = request.body
    assert json.loads(body) == {
        "id": sent.message_id,
        "type": "order.paid",
        "event": "order.paid",
        "timestamp": json.loads(body)["timestamp"],
        "data": {"amount": 4200},
    }
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert standardwebhooks.Webhook(made.secret).verify(body, headers)["data"] == {"amount": 4200}
    svix.Webhook(made.secret).verify(body, headers)
    key = standardwebhooks.Webhook(made.secret)._whsecret
    plain = hmac.new(key, headers["x-webhook-timestamp"].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers["x-webhook-signature"] == plain
    assert headers["x-webhook-event"] == "order.paid"
    assert headers["user-agent"].startswith("Onceward-Webhooks")
    assert await bench.db.fetchval("select count(*) from onceward.work") == 0
    [attempt] = await bench.db.fetch("select * from onceward.attempts")
    assert attempt["result"]["status"] == 200
    assert attempt["result"]["response"] == "thanks"


async def test_what_rolled_back_is_never_sent(bench: OutboxBench, customer: CustomerEndpoint) -> None:
    await bench.register(customer.hook_url)
    await bench.start_worker()
    with pytest.raises(KeyError):
        async with bench.engine.transaction() as tx:
            await tx.publish("order.paid", {"n": 1})
            raise KeyError
    sent = await bench.publish("order.paid", {"n": 2})
    await bench.settled(sent.id)
    assert [one.json["data"] for one in customer.accepted] == [{"n": 2}]
    assert await bench.db.fetchval("select count(*) from onceward.published") == 1


async def test_a_key_publishes_once_however_often_it_is_called(bench: OutboxBench, customer: CustomerEndpoint) -> None:
    await bench.register(customer.hook_url)
    first = await bench.publish(data={"n": 1}, key="order:1")
    again = await bench.publish(data={"n": 1}, key="order:1")
    other = await bench.publish(data={"n": 2}, key="order:1")
    assert (again.id, again.duplicate, again.same) == (first.id, True, True)
    assert (other.id, other.duplicate, other.same) == (first.id, True, False)
    assert await bench.db.fetchval("select count(*) from onceward.deliveries") == 1


async def test_events_go_to_matching_active_endpoints_of_their_organization_only(bench: OutboxBench) -> None:
    ours, theirs = await bench.organization("ours"), await bench.organization("theirs")
    url = "http://127.0.0.1:9999/"
    wanted = {
        (await bench.register(url, ours)).endpoint.endpoint_id,
        (await bench.register(url, ours, events=["order.paid"])).endpoint.endpoint_id,
        (await bench.register(url, ours, events=["user.registered", "order.*"])).endpoint.endpoint_id,
        (await bench.register(url, ours, channels=["eu"])).endpoint.endpoint_id,
    }
    await bench.register(url, ours, events=["order.refunded"])
    await bench.register(url, ours, channels=["us"])
    await bench.register(url, theirs)
    await bench.register(url)
    off = (await bench.register(url, ours)).endpoint.endpoint_id
    await bench.outbox.endpoints.disable(ours, off, actor="test")
    sent = await bench.publish("order.paid", organization=ours, channels=["eu", "de"])
    rows = await bench.db.fetch(
        "select endpoint_id, organization_id from onceward.deliveries where caused_by = $1", sent.id
    )
    assert {row["endpoint_id"] for row in rows} == wanted
    assert {row["organization_id"] for row in rows} == {ours}
    async with bench.engine.transaction(organization=theirs) as tx:
        assert await tx.fetchval("select count(*) from onceward.deliveries") == 0
        assert await tx.fetchval("select count(*) from onceward.published") == 0
        assert await tx.fetchval("select count(*) from onceward.endpoints") == 1


async def test_a_failure_is_tried_again_with_the_same_id_and_body(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    await bench.register(customer.hook_url)
    customer.fail_next(status=500)
    sent = await bench.publish()
    await bench.start_worker()
    row = await until(lambda: _attempted(bench, sent.id, 1))
    assert (row["status"], row["response_status"], row["error"]) == ("pending", 500, "answered 500")
    work = await bench.db.fetchrow("select queue, task, attempts, lane from onceward.work")
    assert (work["queue"], work["task"], work["attempts"]) == ("deliveries-retry", "outbox.redeliver", 1)
    await bench.make_due()
    assert (await bench.settled(sent.id))["status"] == "success"
    one, two = customer.received
    assert one.body == two.body
    assert one.headers["webhook-id"] == two.headers["webhook-id"] == sent.message_id
    [attempt, _] = await bench.db.fetch("select outcome, error from onceward.attempts order by finished_at")
    assert attempt["outcome"] == "retry"
    assert attempt["error"]["status"] == 500
    assert attempt["error"]["response"] == "simulated failure"


async def _attempted(bench: OutboxBench, id: int, times: int) -> dict | None:
    row = await bench.status(id)
    return row if row["attempts"] >= times else None


async def test_the_last_try_ends_as_failed_and_can_be_sent_again(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    from onceward.outbox import resends

    await bench.register(customer.hook_url, retry_waits_s=[1])
    customer.always = 404
    sent = await bench.publish()
    await bench.start_worker()
    await until(lambda: _attempted(bench, sent.id, 1))
    await bench.make_due()
    row = await bench.settled(sent.id)
    assert (row["status"], row["attempts"]) == ("failed", 2)
    assert row["error"] == "answered 404; all 2 attempts failed"
    assert await bench.db.fetchval("select count(*) from onceward.work") == 0
    customer.always = None
    await resends.resend_one(bench.db, None, row["id"], actor="test")
    bench.engine.waker.wake("deliveries-retry")
    assert (await bench.settled(sent.id))["status"] == "success"
    assert customer.received[-1].headers["webhook-id"] == sent.message_id
    await resends.resend_one(bench.db, None, row["id"], actor="test")
    bench.engine.waker.wake("deliveries-retry")
    assert (await until(lambda: _attempted(bench, sent.id, 4)))["status"] == "success", "a success is sent again, too"


async def test_redirects_are_not_followed(bench: OutboxBench, customer: CustomerEndpoint) -> None:
    await bench.register(customer.hook_url)
    customer.redirect_to = f"{customer.url}/hook/other"
    sent = await bench.publish()
    await bench.start_worker()
    row = await until(lambda: _attempted(bench, sent.id, 1))
    assert row["error"] == "answered 302: redirects are not followed"
    assert [one.path for one in customer.received] == ["/hook"]


async def test_410_disables_the_endpoint_and_notifies_its_owner(bench: OutboxBench, customer: CustomerEndpoint) -> None:
    from onceward.outbox.owners import tell_owners

    made = await bench.register(customer.hook_url, owner="dev@example.org")
    customer.gone()
    sent = await bench.publish()
    waiting = await bench.publish()
    await bench.db.execute(
        "update onceward.work set sort_at = sort_at + interval '1 hour' where id <> (select min(id) from onceward.work)"
    )
    await bench.start_worker()
    assert (await bench.settled(sent.id))["error"] == "the endpoint is gone (410)"
    endpoint = await bench.outbox.endpoints.get(None, made.endpoint.endpoint_id)
    assert (endpoint.active, endpoint.disabled_reason) == (False, "gone")
    assert await bench.outbox.sweep() == 1
    assert (await bench.status(waiting.id))["status"] == "failed"
    assert (await bench.publish()).deliveries == 0
    told: list[str] = []

    async def tell(notice) -> None:
        told.append(f"{notice.owner} {notice.kind} {notice.data['reason']}")

    assert await tell_owners(bench.db, tell) == 1
    assert await tell_owners(bench.db, tell) == 0
    assert told == ["dev@example.org disabled gone"]


async def test_retry_after_parks_the_endpoint(bench: OutboxBench, customer: CustomerEndpoint) -> None:
    await bench.register(customer.hook_url)
    customer.rate_limit(retry_after_s=600)
    sent = await bench.publish()
    await bench.start_worker()
    await until(lambda: _attempted(bench, sent.id, 1))
    parked = await bench.db.fetch("select queue from onceward.lanes where open_until > now() + interval '590 seconds'")
    assert {row["queue"] for row in parked} == {"deliveries", "deliveries-retry"}
    due = await bench.db.fetchval("select sort_at - now() > interval '590 seconds' from onceward.work")
    assert due
    second = await bench.publish()
    assert (await bench.status(second.id))["attempts"] == 0


async def test_a_rotated_secret_signs_beside_the_old_one_until_the_overlap_ends(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    made = await bench.register(customer.hook_url)
    endpoint = made.endpoint.endpoint_id
    await bench.start_worker()
    fresh = await bench.outbox.endpoints.rotate_secret(None, endpoint, actor="test")
    await bench.settled((await bench.publish()).id)
    request = customer.received[-1]
    for secret in (made.secret, fresh):
        standardwebhooks.Webhook(secret).verify(request.body, dict(request.headers))
    last = await bench.outbox.endpoints.rotate_secret(None, endpoint, actor="test", overlap=timedelta(0))
    await bench.settled((await bench.publish()).id)
    request = customer.received[-1]
    standardwebhooks.Webhook(last).verify(request.body, dict(request.headers))
    for secret in (made.secret, fresh):
        with pytest.raises(standardwebhooks.webhooks.WebhookVerificationError):
            standardwebhooks.Webhook(secret).verify(request.body, dict(request.headers))


async def test_a_v1a_signature_is_verified_with_the_public_key_of_the_organization(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    ours, theirs = await bench.organization("ours"), await bench.organization("theirs")
    made = await bench.register(customer.hook_url, ours, ed25519=True)
    await bench.register(customer.hook_url, theirs, ed25519=True, events=["user.registered"])
    await bench.start_worker()
    await bench.settled((await bench.publish(organization=ours)).id)
    [request] = customer.received
    [public] = await bench.outbox.endpoints.public_keys(ours)
    [other] = await bench.outbox.endpoints.public_keys(theirs)
    received = Request(method="POST", url_path="/", query="", headers=request.headers, body=request.body)
    provider = get_provider("standard")
    provider.verify(SourceConfig(provider="standard", secrets=(public,)), received, time.time())
    with pytest.raises(Rejected):
        provider.verify(SourceConfig(provider="standard", secrets=(other,)), received, time.time())
    standardwebhooks.Webhook(made.secret).verify(request.body, dict(request.headers))


async def test_headers_of_an_endpoint_are_sent_and_sealed_at_rest(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    made = await bench.register(customer.hook_url, headers={"X-Api-Key": "s3cret"})
    assert made.endpoint.header_names == ["X-Api-Key"]
    assert b"s3cret" not in await bench.db.fetchval("select headers from onceward.endpoints")
    await bench.start_worker()
    await bench.settled((await bench.publish()).id)
    assert customer.received[0].headers["x-api-key"] == "s3cret"


async def test_a_name_that_moves_inside_after_registration_is_not_called(
    make_bench, customer: CustomerEndpoint
) -> None:
    class Moving:
        answers: ClassVar[list[str]] = ["93.184.216.34", "10.0.0.7"]

        async def addresses(self, host: str, port: int) -> list[str]:
            return [self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]]

        def close(self) -> None: ...

    options = OutboxOptions(allow_loopback_http=True)
    bench = await make_bench(client=guarded_client(options, resolver=Moving()))
    await bench.register("https://rebind.example/hook")
    sent = await bench.publish()
    await bench.start_worker()
    row = await until(lambda: _attempted(bench, sent.id, 1))
    assert row["error"] == "rebind.example: address 10.0.0.7 is not allowed: private"


async def test_a_test_event_reaches_only_its_endpoint(bench: OutboxBench, customer: CustomerEndpoint) -> None:
    made = await bench.register(customer.hook_url, events=["order.paid"])
    await bench.register(f"{customer.hook_url}/other")
    await bench.start_worker()
    sent = await bench.outbox.send_test(None, made.endpoint.endpoint_id, actor="test")
    assert (await bench.settled(sent.id))["status"] == "success"
    assert [one.json["type"] for one in customer.received] == ["endpoint.test"]


async def test_an_ordered_endpoint_gets_events_one_after_the_other_though_one_fails(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    await bench.register(customer.hook_url, ordered=True, retry_waits_s=[1, 1])
    customer.fail_next(status=503)
    sent = [await bench.publish(data={"n": n}) for n in range(5)]
    await bench.start_worker()
    await bench.settled(sent[-1].id, timeout_s=15)
    assert [one.json["data"]["n"] for one in customer.received] == [0, 0, 1, 2, 3, 4]


async def test_an_address_that_came_with_a_request_gets_only_what_is_addressed_to_it(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    ours = await bench.organization("ours")
    id = await bench.outbox.endpoints.for_url(ours, customer.hook_url, actor="test")
    assert await bench.outbox.endpoints.for_url(ours, customer.hook_url, actor="test") == id
    assert await bench.outbox.endpoints.list(ours) == []
    assert (await bench.publish(organization=ours)).deliveries == 0
    await bench.start_worker()
    sent = await bench.publish("order.paid", {"n": 1}, organization=ours, endpoint=id)
    assert (await bench.settled(sent.id))["status"] == "success"
    [request] = customer.received
    [public] = await bench.outbox.endpoints.public_keys(ours)
    received = Request(method="POST", url_path="/", query="", headers=request.headers, body=request.body)
    get_provider("standard").verify(SourceConfig(provider="standard", secrets=(public,)), received, time.time())
    with pytest.raises(Invalid, match="private"):
        await bench.outbox.endpoints.for_url(ours, "https://10.0.0.1/", actor="test")


async def test_addresses_of_requests_are_limited_and_forgotten_after_a_month_without_events(
    bench: OutboxBench, customer: CustomerEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "MOST_DIRECT", 2)
    ours, theirs = await bench.organization("ours"), await bench.organization("theirs")
    add, url = bench.outbox.endpoints.for_url, customer.hook_url
    kept = [await add(ours, f"{url}?n={n}", actor="test") for n in range(2)]
    with pytest.raises(Invalid, match="2 URLs"):
        await add(ours, f"{url}?n=2", actor="test")
    assert await add(ours, f"{url}?n=1", actor="test") == kept[1]
    assert await add(theirs, f"{url}?n=2", actor="test")
    await bench.publish("order.paid", {"n": 1}, organization=ours, endpoint=kept[1])
    await bench.db.execute("update onceward.endpoints set created_at = created_at - interval '31 days'")
    assert await add(ours, f"{url}?n=2", actor="test"), "the one without an event made room"
    gone = "select array_agg(endpoint_id) from onceward.endpoints where deleted_at is not null"
    assert await bench.db.fetchval(gone) == [kept[0]]
    assert not await bench.db.fetchval("select count(*) from onceward.endpoint_secrets where endpoint_id = $1", kept[0])
    await bench.outbox.prune()
    assert len(await bench.db.fetchval(gone)) == 2
    await bench.db.execute("update onceward.endpoints set deleted_at = deleted_at - interval '31 days'")
    await bench.db.execute("update onceward.deliveries set endpoint_id = $1", kept[0])
    await bench.outbox.prune()
    assert kept[0] in await bench.db.fetchval(gone), "one with a delivery stays for the history"
    await bench.db.execute("delete from onceward.deliveries")
    await bench.outbox.prune()
    assert kept[0] not in await bench.db.fetchval(gone)


async def test_an_event_is_published_to_the_address_of_a_request_in_one_commit(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    ours = await bench.organization("ours")
    bench.engine.endpoints = bench.outbox.endpoints
    count = "select count(*) from onceward.endpoints where direct"
    with pytest.raises(RuntimeError, match="changed its mind"):
        async with bench.engine.transaction(organization=ours) as tx:
            await tx.publish("order.paid", {"n": 1}, url=customer.hook_url)
            raise RuntimeError("the handler changed its mind")
    assert await bench.db.fetchval(count) == 0
    async with bench.engine.transaction(organization=ours) as tx:
        with pytest.raises(Invalid, match="private"):
            await tx.publish("order.paid", {"n": 1}, url="https://10.0.0.1/")
        sent = await tx.publish("order.paid", {"n": 1}, url=customer.hook_url)
        again = await tx.publish("order.paid", {"n": 2}, url=customer.hook_url)
        assert await tx.fetchval("select current_user") == "onceward_app"
    await bench.start_worker()
    for event in (sent, again):
        assert (await bench.settled(event.id))["status"] == "success"
    assert sorted(one.json["data"]["n"] for one in customer.received) == [1, 2]
    assert await bench.db.fetchval(count) == 1


async def test_statistics_count_every_attempt_of_an_endpoint_once(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    made = await bench.register(customer.hook_url)
    assert (made.endpoint.succeeded, made.endpoint.failed, made.endpoint.last_triggered_at) == (0, 0, None)
    await bench.start_worker()
    for n in range(3):
        await bench.settled((await bench.publish("order.paid", {"n": n})).id)
    customer.always = 400
    await bench.publish("order.paid", {"n": 3})

    async def failed() -> bool:
        return await bench.db.fetchval("select count(*) from onceward.attempts where outcome <> 'success'") == 1

    await until(failed)

    async def counted() -> bool:
        await asyncio.gather(*(upkeep.count_attempts(bench.db) for _ in range(4)))
        endpoint = await bench.outbox.endpoints.get(None, made.endpoint.endpoint_id)
        return (endpoint.succeeded, endpoint.failed) == (3, 1) and endpoint.last_triggered_at is not None

    await until(counted)
    await upkeep.count_attempts(bench.db)
    endpoint = await bench.outbox.endpoints.get(None, made.endpoint.endpoint_id)
    assert (endpoint.succeeded, endpoint.failed) == (3, 1)


async def test_a_delivery_that_this_node_cannot_decrypt_waits_and_others_are_sent(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    here = bench
    other = SecretBox(["a key that this node does not know yet"])
    bad_organization, good_organization = await here.organization("bad"), await here.organization("good")
    bad = await here.register(customer.hook_url, bad_organization)
    await here.register(customer.hook_url, good_organization)
    row = await here.db.fetchrow(
        "select secret_id, secret from onceward.endpoint_secrets where endpoint_id = $1", bad.endpoint.endpoint_id
    )
    assert row is not None
    sealed = other.seal(b"x" * 32, table="onceward.endpoint_secrets", row=row["secret_id"], column="secret")
    change = "update onceward.endpoint_secrets set secret = $2 where secret_id = $1"
    await here.db.execute(change, row["secret_id"], sealed)
    stuck = await here.publish(organization=bad_organization)
    await here.start_worker()
    sent = [await here.publish(organization=good_organization) for _ in range(3)]
    for each in sent:
        assert (await here.settled(each.id))["status"] == "success"
    waiting = await here.status(stuck.id)
    assert (waiting["status"], waiting["attempts"]) == ("pending", 0)
    await here.db.execute(change, row["secret_id"], row["secret"])  # the node gets the key
    await here.db.execute("update onceward.work set sort_at = now() where id = $1", waiting["id"])
    assert (await here.settled(stuck.id))["status"] == "success"
