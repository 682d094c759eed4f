"""Registering endpoints: what is accepted, what is refused and how clearly, and who may see what."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from onceward.outbox import EndpointFields, Invalid
from onceward.outbox.catalogue import Catalogue
from onceward.outbox.checks import CHECKS
from onceward.trust import NotFound, verify

from .conftest import ACTOR, OutboxBench

URL = "http://127.0.0.1:9999/hook"


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"url": "http://example.org/"}, "url", "plain http is for loopback only|does not resolve"),
        ({"url": "ftp://example.org/"}, "url", "scheme 'ftp' is not allowed"),
        ({"url": "https:///path"}, "url", "names no host"),
        ({"url": "not a url"}, "url", "space or control character"),
        ({"url": "https://user:pass@example.org/"}, "url", "user name or password"),
        ({"url": "https://example.org:5432/"}, "url", "port 5432 is not allowed"),
        ({"url": "https://10.0.0.1/"}, "url", "private"),
        ({"url": "https://169.254.169.254/latest"}, "url", "metadata"),
        ({"url": "https://[::ffff:10.0.0.1]/"}, "url", "not allowed"),
        ({"url": "https://nothing.invalid/"}, "url", "does not resolve"),
        ({"url": "https://example.org/" + "a" * 3000}, "url", "at most 2048"),
        ({"events": []}, "events", "at least one"),
        ({"events": "order.paid"}, "events", "must be a list"),
        ({"events": ["order.payed"]}, "events", "did you mean 'order.paid'"),
        ({"events": ["invoice.*"]}, "events", "not in the catalogue"),
        ({"events": ["Order Paid"]}, "events", "is not an event type"),
        ({"events": ["*", "*"]}, "events", "twice"),
        ({"events": ["order.paid"] * 201}, "events", "at most 200"),
        ({"secret": "short"}, "secret", "has 5 bytes, must have 24 to 64"),
        ({"secret": "whsec_!!!"}, "secret", "not base64"),
        ({"secret": "whsec_c2hvcnQ="}, "secret", "has 5 bytes"),
        ({"description": "x" * 501}, "description", "at most 500"),
        ({"channels": []}, "channels", "1 to 20"),
        ({"channels": ["a b"]}, "channels", "'a b'"),
        ({"headers": {"Host": "x"}}, "headers", "'Host' is reserved"),
        ({"headers": {"webhook-id": "x"}}, "headers", "is reserved"),
        ({"headers": {"X-Forwarded-For": "1.2.3.4"}}, "headers", "is reserved"),
        ({"headers": {"X-A": "a\r\nX-B: b"}}, "headers", "not printable"),
        ({"headers": {"a b": "x"}}, "headers", "is not a valid header name"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "headers", "twice"),
        ({"headers": {"X-A": "x" * 5000}}, "headers", "at most 4096"),
        ({"headers": {f"X-{n}": "1" for n in range(21)}}, "headers", "at most 20"),
        ({"metadata": {"x": "y" * 20000}}, "metadata", "at most 16384"),
        ({"owner": "nobody"}, "owner", "mail address"),
        ({"max_in_flight": 0}, "max_in_flight", "between 1 and 100, not 0"),
        ({"max_in_flight": 3, "ordered": True}, "max_in_flight", "must be 1 for an ordered endpoint"),
        ({"rate_per_s": 0}, "rate_per_s", "not 0"),
        ({"retry_waits_s": [0.1]}, "retry_waits_s", "not 0.1"),
        ({"retry_waits_s": [1] * 51}, "retry_waits_s", "at most 50"),
    ],
)
async def test_a_bad_registration_says_which_field_and_why(
    bench: OutboxBench, fields: dict[str, Any], field: str, said: str
) -> None:
    wanted = EndpointFields(**{"url": URL, "events": ["*"], **fields})
    with pytest.raises(Invalid, match=said) as caught:
        await bench.outbox.endpoints.register(None, wanted, actor=ACTOR)
    assert caught.value.field == field
    assert await bench.db.fetchval("select count(*) from onceward.endpoints") == 0


async def test_loopback_is_refused_outside_development(make_bench) -> None:
    bench = await make_bench()
    from onceward.outbox import Outbox, OutboxOptions
    from onceward.trust import SecretBox

    strict = Outbox(bench.db, box=SecretBox(["a key that is long enough for the tests"]), options=OutboxOptions())
    for url in ("http://127.0.0.1:9999/", "https://127.0.0.1/"):
        with pytest.raises(Invalid) as caught:
            await strict.endpoints.register(None, EndpointFields(url=url, events=["*"]), actor=ACTOR)
        assert caught.value.field == "url"
    await strict.stop()


async def test_organizations_do_not_see_each_others_endpoints(bench: OutboxBench) -> None:
    ours, theirs = await bench.organization("ours"), await bench.organization("theirs")
    made = await bench.register(URL, ours)
    id = made.endpoint.endpoint_id
    endpoints = bench.outbox.endpoints
    assert await endpoints.list(theirs) == []
    for act in (
        endpoints.get(theirs, id),
        endpoints.change(theirs, id, {"url": URL}, actor=ACTOR),
        endpoints.rotate_secret(theirs, id, actor=ACTOR),
        endpoints.disable(theirs, id, actor=ACTOR),
        endpoints.enable(theirs, id, actor=ACTOR),
        endpoints.delete(theirs, id, actor=ACTOR),
        bench.outbox.send_test(theirs, id, actor=ACTOR),
    ):
        with pytest.raises(NotFound):
            await act
    assert (await endpoints.get(ours, id)).active
    with pytest.raises(Exception, match="permission denied"):
        async with bench.engine.transaction(organization=ours) as tx:
            await tx.fetch("select * from onceward.endpoint_secrets")


async def test_a_changed_endpoint_is_used_at_once_and_the_change_is_audited(bench: OutboxBench) -> None:
    made = await bench.register(URL, owner="dev@example.org")
    id = made.endpoint.endpoint_id
    changed = await bench.outbox.endpoints.change(None, id, {"events": ["order.paid"], "rate_per_s": 5.0}, actor=ACTOR)
    assert (changed.events, changed.rate_per_s, changed.owner) == (["order.paid"], 5.0, "dev@example.org")
    assert (await bench.publish("user.registered")).deliveries == 0
    lanes = await bench.db.fetch("select rate_per_s from onceward.lanes where lane = $1", str(id))
    assert [row["rate_per_s"] for row in lanes] == [5.0, 5.0]
    with pytest.raises(Invalid):
        await bench.outbox.endpoints.change(None, id, {"events": []}, actor=ACTOR)
    actions = await bench.db.fetch("select action, changes::text from onceward.audit_log order by id")
    assert [row["action"] for row in actions] == ["endpoint.registered", "endpoint.changed"]
    assert "dev@example.org" not in "".join(row["changes"] or "" for row in actions)


async def test_a_deleted_endpoint_keeps_its_history_and_loses_its_secrets(bench: OutboxBench) -> None:
    made = await bench.register(URL, headers={"X-Key": "k"})
    sent = await bench.publish()
    await bench.outbox.endpoints.delete(None, made.endpoint.endpoint_id, actor=ACTOR)
    assert await bench.outbox.endpoints.list(None) == []
    assert await bench.db.fetchval("select count(*) from onceward.endpoint_secrets") == 0
    assert await bench.db.fetchval("select headers from onceward.endpoints") is None
    assert (await bench.publish()).deliveries == 0
    assert await bench.outbox.sweep() == 1
    assert (await bench.status(sent.id))["status"] == "failed"


async def test_invariants_hold_and_lost_work_is_found(bench: OutboxBench) -> None:
    await bench.register(URL)
    await bench.publish()
    assert [result for result in await verify(bench.db, CHECKS) if not result.ok] == []
    await bench.db.execute("delete from onceward.work")
    [broken] = [result for result in await verify(bench.db, CHECKS) if not result.ok]
    assert broken.name == "outbox.nothing_pending_is_lost"


async def test_publishing_what_is_not_declared_or_does_not_fit_is_an_error(bench: OutboxBench) -> None:
    with pytest.raises(Invalid, match=r"did you mean 'order\.paid'"):
        await bench.publish("order.payed")
    for number in ("nan", "1e400", "-inf"):
        with pytest.raises(Invalid, match=r"at data\.lines\.1\.price: JSON has no such number"):
            await bench.publish("order.paid", {"note": None, "lines": [{}, {"price": float(number)}]})
    with pytest.raises(Invalid, match="cannot be written as JSON"):
        await bench.publish(data={"x": object()})
    with pytest.raises(Invalid, match="262144"):
        await bench.publish(data={"x": "y" * 300_000})
    with pytest.raises(Invalid, match="1 to 255"):
        await bench.publish(key="")
    assert await bench.db.fetchval("select count(*) from onceward.published") == 0


def test_a_sample_must_fit_its_model() -> None:
    from pydantic import BaseModel

    class Paid(BaseModel):
        """An order was paid."""

        order_id: uuid.UUID
        amount: int

    catalogue = Catalogue()
    with pytest.raises(ValueError, match=r"sample of event type 'order\.paid' does not match its model: amount"):
        catalogue.declare("order.paid", Paid, sample={"order_id": str(uuid.uuid4())})
    with pytest.raises(ValueError, match=r"event type 'order\.paid' has no sample"):
        catalogue.declare("order.paid", Paid, sample=None)
    declared = catalogue.declare("order.paid", Paid, sample={"order_id": str(uuid.uuid4()), "amount": 3})
    assert declared.schema["properties"]["amount"]["type"] == "integer"
    assert declared.description == "An order was paid."
    with pytest.raises(Invalid, match=r"data: does not match the model of order\.paid: amount"):
        catalogue.dump("order.paid", {"order_id": str(uuid.uuid4()), "amount": "much"})
    with pytest.raises(ValueError, match="declared twice"):
        catalogue.declare("order.paid", sample={})


async def test_pages_contain_every_endpoint_once(bench: OutboxBench) -> None:
    ours = await bench.organization("acme")
    made = [(await bench.register(URL, ours)).endpoint.endpoint_id for _ in range(5)]
    await bench.db.execute("update onceward.endpoints set created_at = now()")  # in one moment, as by an import
    for everybody in (False, True):
        seen: list[uuid.UUID] = []
        while page := await bench.outbox.endpoints.list(
            None if everybody else ours, all_organizations=everybody, after=seen[-1] if seen else None, limit=2
        ):
            seen += [each.endpoint_id for each in page]
        assert sorted(seen) == sorted(made)
