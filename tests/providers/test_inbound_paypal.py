"""PayPal's signature, with an authority made for the test in DigiCert's place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from onceward.integrations.paypal.simulator import CERTIFICATE_URL, simulated_source
from onceward.integrations.paypal.webhooks import PayPal
from onceward.webhooks.provider import ConfigError, Rejected, Request, SourceConfig
from onceward.webhooks.registry import get_provider

SIMULATED = simulated_source("4JH86294D6297924G")
OTHER_AUTHORITY = simulated_source("4JH86294D6297924G")
PEM = SIMULATED.options["certificates"][CERTIFICATE_URL].encode()
YEAR_S = 365 * 86_400


def unpinned(**changes: Any) -> SourceConfig:
    """The same source as a deployment has it: the certificate comes over the network."""
    options = {**SIMULATED.options, "certificates": {}, **changes}
    return SourceConfig(provider="paypal", secrets=SIMULATED.secrets, options=options)


def signed(body: bytes = b'{"id":"WH-1","event_type":"PAYMENT.CAPTURE.COMPLETED"}', **extra: str) -> Request:
    headers = PayPal().sign(SIMULATED, body, time.time(), **extra)
    return Request("POST", "/webhooks/paypal", "", headers, body)


def with_header(request: Request, name: str, value: str) -> Request:
    return replace(request, headers={**request.headers, name: value})


class Network:
    """Serves one certificate and counts how often it was asked."""

    def __init__(self, pem: bytes = PEM) -> None:
        self.pem = pem
        self.asked: list[str] = []

    async def fetch(self, url: str, **_: Any) -> bytes:
        self.asked.append(url)
        return self.pem


def receive(provider: PayPal, config: SourceConfig, request: Request, network: Network, now: float = 0) -> None:
    asyncio.run(provider.prepare(config, request, network.fetch))
    provider.verify(config, request, time.time())


def refusal(step: Callable[[], object]) -> str:
    with pytest.raises(Rejected) as refused:
        step()
    assert 400 <= refused.value.status < 500
    return refused.value.reason


def test_a_genuine_request_is_accepted_and_its_certificate_fetched_once() -> None:
    provider, network, config = PayPal(), Network(), unpinned()
    for _ in range(3):
        receive(provider, config, signed(), network)
    assert network.asked == [CERTIFICATE_URL]


def test_a_pinned_certificate_is_never_fetched() -> None:
    network = Network()
    receive(PayPal(), SIMULATED, signed(), network)
    assert network.asked == []


def test_the_signature_covers_body_time_id_and_our_webhook_id() -> None:
    provider, network, config = PayPal(), Network(), unpinned()
    request = signed()
    receive(provider, config, request, network)
    for changed in (
        replace(request, body=request.body + b" "),
        with_header(request, "paypal-transmission-id", "another"),
        with_header(request, "paypal-transmission-time", "2020-01-01T00:00:00Z"),
    ):
        assert refusal(partial(provider.verify, config, changed, time.time())) == "bad_signature"
    other = unpinned(webhook_id="ANOTHER")
    assert refusal(lambda: provider.verify(other, request, time.time())) == "bad_signature"


@pytest.mark.parametrize(
    "url",
    [
        "http://api.paypal.com/v1/notifications/certs/CERT-1",
        "https://api.paypal.com.evil.example/v1/notifications/certs/CERT-1",
        "https://evilpaypal.com/v1/notifications/certs/CERT-1",
        "https://paypal.com@evil.example/v1/notifications/certs/CERT-1",
        "https://user:password@api.paypal.com/v1/notifications/certs/CERT-1",
        "https://api.paypal.com:8443/v1/notifications/certs/CERT-1",
        "https://127.0.0.1/v1/notifications/certs/CERT-1",
        "https://[::1]/v1/notifications/certs/CERT-1",
        "https://[",
        "https://api.paypal.com/other/CERT-1",
        "https://api.paypal.com/v1/notifications/certs/../../../redirect",
        "https://api.paypal.com/v1/notifications/certs/CERT-1?next=https://evil.example",
        "https://api.paypal.com/v1/notifications/certs/CERT-1#x",
        "https://api.paypal.com\\.evil.example/v1/notifications/certs/CERT-1",
        "file:///v1/notifications/certs/CERT-1",
        "//api.paypal.com/v1/notifications/certs/CERT-1",
    ],
)
def test_nothing_is_fetched_from_anywhere_but_paypal(url: str) -> None:
    network = Network()
    request = with_header(signed(), "paypal-cert-url", url)
    assert refusal(lambda: receive(PayPal(), unpinned(), request, network)) == "untrusted_host"
    assert refusal(lambda: PayPal().verify(unpinned(), request, time.time())) == "untrusted_host"
    assert network.asked == []


@pytest.mark.parametrize(
    ("header", "value", "reason"),
    [
        ("paypal-auth-algo", "SHA1withRSA", "unsupported_algorithm"),
        ("paypal-auth-algo", "none", "unsupported_algorithm"),
        ("paypal-transmission-sig", "not base64!", "bad_encoding"),
        ("paypal-transmission-sig", "", "missing_header"),
        ("paypal-transmission-id", "a|b", "bad_header"),
        ("paypal-cert-url", "", "missing_header"),
    ],
)
def test_what_cannot_be_genuine_costs_no_connection(header: str, value: str, reason: str) -> None:
    network = Network()
    request = with_header(signed(), header, value)
    assert refusal(lambda: receive(PayPal(), unpinned(), request, network)) == reason
    assert network.asked == []


def test_a_certificate_of_another_authority_is_refused_and_not_kept() -> None:
    provider, network = PayPal(), Network(OTHER_AUTHORITY.options["certificates"][CERTIFICATE_URL].encode())
    for _ in range(2):
        assert refusal(lambda: receive(provider, unpinned(), signed(), network)) == "bad_certificate"
    assert len(network.asked) == 2


def test_a_certificate_for_another_host_is_refused() -> None:
    source = simulated_source(host="signer.paypal.com.evil.example")
    network = Network(source.options["certificates"][CERTIFICATE_URL].encode())
    config = SourceConfig(provider="paypal", options={**source.options, "certificates": {}})
    assert refusal(lambda: receive(PayPal(), config, signed(), network)) == "bad_certificate"


@pytest.mark.parametrize("years", [-1, 2])
def test_a_certificate_is_refused_outside_its_validity(years: int) -> None:
    provider, now = PayPal(), time.time() + years * YEAR_S
    assert refusal(lambda: provider.verify(SIMULATED, signed(), now)) == "bad_certificate"


@pytest.mark.parametrize("pem", [b"", b"no certificate", PEM[:200], b"\xff" * 100, PEM * 200])
def test_what_is_fetched_must_be_a_certificate_of_sane_size(pem: bytes) -> None:
    assert refusal(lambda: receive(PayPal(), unpinned(), signed(), Network(pem))) == "bad_certificate"


def test_an_unreachable_certificate_is_a_counted_refusal_that_paypal_retries() -> None:
    async def fetch(url: str, **_: Any) -> bytes:
        raise TimeoutError

    def attempt() -> None:
        asyncio.run(PayPal().prepare(unpinned(), signed(), fetch))

    assert refusal(attempt) == "certificate_unavailable"
    assert refusal(lambda: PayPal().verify(unpinned(), signed(), time.time())) == "certificate_unavailable"


def test_the_certificates_kept_are_bounded() -> None:
    provider, network, config = PayPal(), Network(), unpinned()
    for number in range(40):
        receive(provider, config, signed(cert_url=f"{CERTIFICATE_URL}-{number}"), network)
    receive(provider, config, signed(cert_url=f"{CERTIFICATE_URL}-39"), network)
    assert len(network.asked) == 40
    receive(provider, config, signed(cert_url=f"{CERTIFICATE_URL}-0"), network)
    assert len(network.asked) == 41


def test_an_old_transmission_passes_unless_an_age_is_set() -> None:
    provider, request, later = PayPal(), signed(), time.time() + 2 * 86_400
    provider.verify(SIMULATED, request, later)
    aged = SourceConfig(provider="paypal", options={**SIMULATED.options, "max_age_s": 86_400})
    assert refusal(lambda: provider.verify(aged, request, later)) == "stale_timestamp"


def test_the_chain_may_be_sent_with_its_intermediates() -> None:
    pem = PEM + SIMULATED.options["roots_pem"].encode()
    receive(PayPal(), unpinned(), signed(), Network(pem))


def test_without_own_roots_only_those_of_the_system_count() -> None:
    config = SourceConfig(provider="paypal", options={"webhook_id": "1"})
    assert refusal(lambda: receive(PayPal(), config, signed(), Network())) == "bad_certificate"


def test_a_refund_is_ordered_with_the_capture_it_belongs_to() -> None:
    provider = PayPal()
    capture = "https://api.paypal.com/v2/payments/captures/42311647XV020574X"
    sample = get_provider("paypal").sample("PAYMENT.CAPTURE.REFUNDED", {"resource.links.0.href": capture})
    (item,) = provider.parse(SIMULATED, signed(provider.encode(sample)))
    assert item.ordering == "42311647XV020574X"
    assert provider.data(item.payload)["status"] == "COMPLETED"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"webhook_id": ""},
        {"webhook_id": "1", "roots_pem": "nothing"},
        {"webhook_id": "1", "certificates": {"https://evil.example/v1/notifications/certs/1": "x"}},
    ],
)
def test_a_source_that_could_not_verify_is_refused_when_made(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"webhook_id|roots_pem|certificates"):
        SourceConfig(provider="paypal", options=options)


def test_only_a_simulated_source_can_sign() -> None:
    config = SourceConfig(provider="paypal", options={"webhook_id": "1"})
    with pytest.raises(ConfigError, match="simulated"):
        PayPal().sign(config, b"{}", time.time())
