"""The signature of an event is stored as evidence, for every sender."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from onceward import Onceward
from onceward.integration import integrations
from onceward.integrations.paypal.simulator import simulated_source
from onceward.webhooks.provider import Rejected, Request, SourceConfig
from onceward.webhooks.registry import PROVIDERS
from tests.inbox.conftest import Office, call, office

__all__ = ["office"]

NAMES = [name for name in PROVIDERS if name not in integrations().senders] + ["circleci"]
"""The providers that are code, and one of those that are data (tests/senders has all of them)."""
PAYPAL = simulated_source()
NEEDED: dict[str, dict[str, Any]] = {
    "generic": {"options": {"header": "X-Signature"}},
    "paypal": {"options": dict(PAYPAL.options)},
    "twilio": {"public_url": "https://hooks.example.com"},
    "whatsapp": {"options": {"verify_token": "agreed"}},
}
"""What a source needs besides a secret."""


def sending(name: str) -> SourceConfig:
    """Return the configuration with which the sender signs. Only PayPal's secret is not the one of the source."""
    if name == "paypal":
        return PAYPAL
    return SourceConfig(provider=name, secrets=(PROVIDERS[name].sample_secret,), **NEEDED.get(name, {}))


def genuine(config: SourceConfig) -> Request:
    """Return a genuine request that becomes an event, and not an answer to a handshake."""
    provider, path = PROVIDERS[config.provider], f"/webhooks/{config.provider}"
    for type in provider.sample_types:
        body = provider.encode(provider.sample(type))
        headers = provider.sign(config, body, time.time(), path=path, type=type)
        request = Request("POST", path, "", headers, body)
        if provider.challenge(config, request) is None:
            return request
    raise AssertionError(f"{config.provider} has no sample of an event")


def is_accepted(config: SourceConfig, request: Request) -> bool:
    try:
        PROVIDERS[config.provider].verify(config, request, time.time())
    except Rejected:
        return False
    return True


@pytest.mark.parametrize("name", NAMES)
def test_a_sender_that_signs_declares_the_header_with_the_signature(name: str) -> None:
    provider = PROVIDERS[name]
    config = sending(name)
    request = genuine(config)
    changed = request.body[:-1] + bytes([request.body[-1] ^ 1])
    signs = not is_accepted(config, Request("POST", request.url_path, "", request.headers, changed))
    declared = [header for header in provider.signature_headers(config) if header in request.headers]
    assert bool(declared) == signs
    for header in declared:
        rest = {each: value for each, value in request.headers.items() if each != header}
        assert not is_accepted(config, Request("POST", request.url_path, "", rest, request.body)), header


async def test_the_signature_of_each_sender_is_stored_with_its_event(
    office: Callable[[Onceward], Awaitable[Office]],
) -> None:
    here = await office(Onceward("evidence"))
    sent: dict[str, str | None] = {}
    for name in NAMES:
        provider, config = PROVIDERS[name], sending(name)
        await here.source(name, secret=provider.sample_secret if provider.needs_secret else "", **NEEDED.get(name, {}))
        request = genuine(config)
        reply = await call(here.inbox, request.url_path, request.body, request.headers)
        assert reply.status < 300, (name, reply)
        sent[name] = next(
            (request.headers[each] for each in provider.signature_headers(config) if each in request.headers),
            None,
        )
    rows = await here.db.fetch(
        "select s.name, e.signature from onceward.webhook_events e join onceward.sources s using (webhook_id)"
    )
    assert {row["name"]: row["signature"] for row in rows} == sent
    # Brevo signs nothing: it sends a token, which is a secret and is not kept.
    assert [name for name, signature in sent.items() if signature is None] == ["brevo", "none"]
