"""The simulators themselves: faults to order, and an endpoint that accepts only signed requests."""

import time
from datetime import UTC, datetime

import aiohttp
import pytest
from standardwebhooks import Webhook

from onceward.http import Ambiguous, GuardedClient
from onceward.testing.simulators import CustomerEndpoint, Simulators

SECRET = "whsec_" + "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"


async def test_all_simulators_start_on_separate_ports() -> None:
    async with Simulators() as sims:
        urls = {simulator.url for simulator in sims.over_http}
        assert len(urls) == len(sims.over_http) == 19
        assert sims.smtp.port
    with pytest.raises(RuntimeError, match="not been started"):
        _ = sims.smtp.port


async def test_faults_are_used_up_in_the_order_they_were_asked_for(guarded) -> None:
    async with CustomerEndpoint() as customer:
        customer.fail_next(2, status=500)
        customer.rate_limit(retry_after_s=3)
        statuses = [(await guarded.request("POST", customer.hook_url, body=b"{}")).status for _ in range(4)]
    assert statuses == [500, 500, 429, 200]
    assert len(customer.received) == 4
    assert len(customer.accepted) == 1


async def test_a_customers_endpoint_accepts_only_signed_webhooks(guarded) -> None:
    body, stamp = b'{"type":"checkout.completed"}', int(time.time())
    official = Webhook(SECRET)

    def headers(identity: str, at: int, signature: str) -> dict[str, str]:
        return {"webhook-id": identity, "webhook-timestamp": str(at), "webhook-signature": signature}

    signature = official.sign("msg_1", datetime.fromtimestamp(stamp, UTC), body.decode())
    old = stamp - 3600
    stale = official.sign("msg_1", datetime.fromtimestamp(old, UTC), body.decode())
    async with CustomerEndpoint(secret=SECRET) as customer:
        cases = [
            (headers("msg_1", stamp, f"v1,AAAA {signature}"), 200),
            (headers("msg_1", stamp, signature), 200),
            (headers("msg_2", stamp, signature), 401),
            (headers("msg_1", old, stale), 401),
            ({}, 401),
        ]
        for sent, expected in cases:
            answer = await guarded.request("POST", customer.hook_url, headers=sent, body=body)
            assert answer.status == expected
    assert len(customer.accepted) == 2
    assert list(customer.unique) == ["msg_1"]
    assert len(customer.rejected) == 3


async def test_an_endpoint_can_be_gone_redirect_hang_and_cut(guarded) -> None:
    async with CustomerEndpoint() as customer, GuardedClient(allow_loopback_http=True) as client:
        customer.redirect_to = "http://127.0.0.1:9/"
        assert (await client.request("POST", customer.hook_url, body=b"{}")).status == 302
        customer.redirect_to = None
        customer.hang(act=True)
        with pytest.raises(Ambiguous):
            await client.request("POST", customer.hook_url, body=b"{}", timeout_s=0.2)
        customer.drop_after_send()
        with pytest.raises(Ambiguous):
            await client.request("POST", customer.hook_url, body=b"{}")
        assert len(customer.accepted) == 2
        customer.gone()
        assert (await client.request("POST", customer.hook_url, body=b"{}")).status == 410


async def test_pages_for_people_are_spared_from_faults() -> None:
    async with Simulators() as sims, aiohttp.ClientSession() as browser:
        sims.stripe.fail_next()
        missing = await browser.get(f"{sims.stripe.url}/pay/none")
        assert missing.status == 404
        assert sims.stripe.received == []
