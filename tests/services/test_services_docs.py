"""The pages about outside services say what the code does, and their snippets verify real requests."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from onceward.services import callable_services
from onceward.settings import prefix_of
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import PROVIDERS, get_provider

DOCS = Path(__file__).parents[2] / "docs"
STANDARD_SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
SECRETS = {"formbricks": STANDARD_SECRET, "daily": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}
VERIFIED = {"stripe": "charge.succeeded", "calcom": "BOOKING_CREATED", "formbricks": "responseFinished"} | {
    "twilio": "message.delivered",
    "whatsapp": "status.read",
    "daily": "participant.joined",
    "slack": "message",
}


@pytest.mark.parametrize("name", sorted(set(callable_services()) & set(PROVIDERS)))
def test_the_page_of_a_provider_has_its_outgoing_half(name: str) -> None:
    page = (DOCS / "integrations" / f"{name}.md").read_text()
    half = page.partition("## Our calls")[2]
    assert f"await app.services.{name}(organization)" in half
    for each in callable_services()[name].account:
        assert f"{prefix_of(name)}{each.name.upper()}" in half
        assert f"`{name}.{each.name}`" in half


@pytest.mark.parametrize(("name", "type"), VERIFIED.items())
def test_the_snippet_of_a_page_verifies_a_request_and_refuses_a_changed_one(name: str, type: str) -> None:
    page = (DOCS / "integrations" / f"{name}.md").read_text()
    code = re.search(r"## Verify a request yourself\n.*?```python\n(.*?)```", page, re.DOTALL)
    assert code is not None
    scope: dict[str, Any] = {}
    exec(code[1], scope)
    secret = SECRETS.get(name, "a-secret-of-the-sender")
    provider = get_provider(name)
    config = SourceConfig(provider=name, secrets=(secret,), public_url="https://shop.example")
    body = provider.encode(provider.sample(type, {}))
    headers = provider.sign(config, body, time.time(), path="/webhooks/x")
    more = ("https://shop.example/webhooks/x",) if name == "twilio" else ()
    assert scope["verify"](secret, headers, body, *more)
    assert not scope["verify"](secret, headers, body + b" ", *more)
    assert not scope["verify"](secret.replace("M", "N", 1) + ("" if name in SECRETS else "x"), headers, body, *more)
