"""One configured source per provider, and a genuine request for any of them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from onceward.integration import integrations
from onceward.integrations.paypal.simulator import simulated_source
from onceward.webhooks.provider import Request, SourceConfig
from onceward.webhooks.registry import PROVIDERS

NOW = 1_700_000_000.0
KEY_A = "whsec_" + base64.b64encode(b"a" * 32).decode()
KEY_B = "whsec_" + base64.b64encode(b"b" * 32).decode()
_PAYPAL = simulated_source()


def _settings(name: str) -> dict[str, Any]:
    match name:
        case "twilio":
            return {"public_url": "https://hooks.example.com"}
        case "whatsapp":
            return {"options": {"verify_token": "agreed"}}
        case "generic":
            return {
                "options": {
                    "header": "X-Signature",
                    "signed": "{timestamp}.{body}",
                    "timestamp": "X-Timestamp",
                }
            }
        case _:
            return {}


def _secret(name: str, which: str) -> str:
    secret = {"a": KEY_A, "b": KEY_B}[which]
    return secret.removeprefix("whsec_") if name == "daily" else secret


WRITTEN = sorted(set(PROVIDERS) - set(integrations().senders))
"""The providers that are code. Those that are only data have a suite of their own (tests/senders)."""


@pytest.fixture(params=WRITTEN)
def provider_name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def make_source() -> Callable[..., SourceConfig]:
    def make(name: str, *which: str, **changes: Any) -> SourceConfig:
        if name == "paypal":
            return _PAYPAL
        secrets = tuple(_secret(name, one) for one in which or ("a",))
        return SourceConfig(provider=name, secrets=secrets, **(_settings(name) | changes))

    return make


@pytest.fixture
def genuine() -> Callable[..., Request]:
    def make(config: SourceConfig, type: str, *, now: float = NOW, **fields: Any) -> Request:
        provider = PROVIDERS[config.provider]
        # PayPal's simulated certificate is valid around the real time only.
        body = provider.encode(provider.sample(type, fields))
        path = f"/webhooks/{config.provider}"
        headers = provider.sign(config, body, now, path=path, type=type)
        return Request("POST", path, "", headers, body)

    return make
