"""The direct path accepts what it can store, and names the reason for every request that it leaves to the ASGI path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import orjson
import pytest
from structlog.testing import capture_logs

from onceward import Event, Onceward, Tx
from onceward.inbox import direct
from onceward.inbox.direct import DirectDeclined
from onceward.inbox.intake import MOST_ITEMS
from onceward.inbox.source import Source
from onceward.integrations.stripe.webhooks import StripeWebhooks
from onceward.telemetry.metrics import REGISTRY
from onceward.webhooks.provider import Provider, SourceConfig
from onceward.webhooks.registry import PROVIDERS
from tests.inbox.conftest import Office, call, office
from tests.web.test_protocol import Front, answer, count, event, front

__all__ = ["front", "office"]

MakeOffice = Callable[[Onceward], Awaitable[Office]]


def declined(reason: DirectDeclined) -> float:
    return REGISTRY.get_sample_value("onceward_webhook_direct_declined_total", {"reason": reason}) or 0.0


@contextmanager
def declined_once(reason: DirectDeclined) -> Iterator[None]:
    """Check that the block declines one request, for this reason and no other."""
    before = {each: declined(each) for each in DirectDeclined}
    yield
    added = {each: declined(each) - before[each] for each in DirectDeclined}
    assert {each: number for each, number in added.items() if number} == {reason: 1}


def offer(here: Office, path: str, body: bytes, headers: dict[str, str]) -> bool:
    """Offer a request to the direct path, without a socket. It must not answer a request that it declines."""

    def reply(status: int, head: bytes, body: bytes) -> None:
        raise AssertionError(f"answered {status}")

    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return here.inbox.receiver.direct(path, pairs, body, reply)


async def test_each_reason_to_decline_is_counted_and_the_asgi_path_answers(
    office: MakeOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Onceward("declining")

    @app.on("stripe", "charge.succeeded")
    async def complete(event: Event, tx: Tx) -> str:
        return "handled"

    here = await office(app)
    await here.source("stripe")
    await here.source("small", provider="stripe", max_body_bytes=1024)
    await here.source("inline", provider="stripe", mode="inline")
    await here.source("waiting", provider="stripe")
    object.__setattr__(here.inbox.catalog.get("waiting"), "verifies_alone", False)
    monkeypatch.setattr(direct, "is_tracing", lambda: True)
    await here.source("daily", secret="c2VjcmV0IG9mIHRoZSB0ZXN0cw==")
    large = event(1)[:-1] + b', "more": "%b"}' % (b"x" * 1024)
    for reason, name, body, headers, status in (
        (DirectDeclined.UNKNOWN_SOURCE, "nobody", event(1), {}, 404),
        (DirectDeclined.VERIFICATION_WAITS, "waiting", event(1), here.signed("waiting", event(1)), 200),
        (DirectDeclined.TRACED, "inline", event(1), here.signed("inline", event(1)), 200),
        (DirectDeclined.TOO_LARGE, "small", large, here.signed("small", large), 413),
        (DirectDeclined.REJECTED, "stripe", event(1), {"stripe-signature": "t=1,v1=00"}, 401),
        (DirectDeclined.CHALLENGE, "daily", b'{"test":"test"}', {}, 200),
    ):
        with declined_once(reason), capture_logs() as logs:
            assert not offer(here, f"/webhooks/{name}", body, headers), reason
        assert logs == [], "an expected reason is counted, not logged"
        assert (await call(here.inbox, f"/webhooks/{name}", body, headers)).status == status, reason
    assert await count(here.db) == 2, "one for each of the two sources that accept"
    monkeypatch.undo()
    monkeypatch.setattr(here.inbox.receiver.commits, "_most_waiting", 0)
    with declined_once(DirectDeclined.OVERLOADED):
        assert not offer(here, "/webhooks/stripe", event(2), here.signed("stripe", event(2)))
    assert (await here.send(event(2))).status == 503


async def test_an_unexpected_exception_is_logged_and_the_asgi_path_accepts_the_event(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> float:
        raise RuntimeError("the clock of this test is broken")

    monkeypatch.setattr(front.here.inbox.receiver.direct, "_clock", broken)
    reader, writer = await front.connect()
    with declined_once(DirectDeclined.FAILED), capture_logs() as logs:
        writer.write(front.wire(event(1)))
        status, _, body = await answer(reader)
    assert (status, orjson.loads(body)["status"], front.taken) == (200, "accepted", 0)
    assert await count(front.here.db) == 1
    [entry] = [each for each in logs if each["event"] == "direct_request.failed"]
    assert (entry["source"], entry["provider"], entry["log_level"]) == ("stripe", "stripe", "error")
    assert entry["exc_info"], "the log shows where the exception came from"
    assert "evt_1" not in str(entry)
    writer.close()


async def test_bodies_with_several_events_or_none_are_taken_too(front: Front) -> None:
    options = {"header": "X-Signature", "id_field": "n", "type_field": "t"}
    await front.here.source("crm", provider="generic", options=options)
    reader, writer = await front.connect()
    for number, (batch, stored) in enumerate((([{"n": 1, "t": "a"}, {"n": 2, "t": "a"}], 2), ([], 3)), start=1):
        writer.write(front.wire(orjson.dumps(batch), name="crm"))
        assert (await answer(reader))[0] == 200
        assert (front.taken, await count(front.here.db)) == (number, stored)
    too_many = b"[" + b",".join([b"{}"] * (MOST_ITEMS + 1)) + b"]"
    writer.write(front.wire(too_many, name="crm"))
    assert (await answer(reader))[0] == 400
    assert (front.taken, await count(front.here.db)) == (2, 3)
    writer.close()


class BindingStripe(StripeWebhooks):
    """A provider whose signature covers only a checksum, so that its transmission ids must be written first."""

    name = "binding"

    def binds(self, config: SourceConfig) -> bool:
        return True


def test_only_the_asgi_path_receives_from_providers_that_fetch_or_bind_transmission_ids() -> None:
    def verifies_alone(provider: Provider, **options: bool) -> bool:
        named = "github" if provider.name == "github" else "stripe"
        config = SourceConfig(provider=named, secrets=("whsec_of_the_tests",), options=options)
        source = Source(webhook_id=uuid4(), name="any", provider=provider, config=config, mode="ack", organization=None)
        return source.verifies_alone

    assert not verifies_alone(BindingStripe())
    assert not verifies_alone(PROVIDERS["paypal"])
    assert [each.name for each in PROVIDERS.values() if verifies_alone(each) == each.fetches] == []
    assert not verifies_alone(PROVIDERS["github"], once_per_body=True)
