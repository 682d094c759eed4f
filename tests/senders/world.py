"""A configured source for any sender, and a request as the sender makes it, signed by the second implementation."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from onceward.integration import integrations
from onceward.webhooks.provider import Request, SourceConfig
from onceward.webhooks.registry import PROVIDERS
from onceward.webhooks.sample_secrets import sample_secret_of
from onceward.webhooks.sender import Sender
from tests.senders.recipes import BODIES, FETCHED_BACK, QUERIES, RECIPES
from tests.senders.signing import Delivery

NOW = 1_767_268_800.0
SENDERS = tuple(name for name in integrations().senders if name not in FETCHED_BACK)
PUBLIC_URL = "https://hooks.example.com"


def sender_named(name: str) -> Sender:
    sender = PROVIDERS[name]
    assert isinstance(sender, Sender), f"sender.py of {name} must declare a Sender"
    return sender


@cache
def secret_of(name: str, which: str = "a") -> str:
    return sample_secret_of(sender_named(name).verification, which)


@cache
def source(name: str, *which: str, **changes: Any) -> SourceConfig:
    """Return a source with the secrets `which`, and the examples of the options that the sender requires."""
    fields = sender_named(name).options_model.model_fields
    options = {option: (each.examples or [])[0] for option, each in fields.items() if each.is_required()}
    secrets = tuple(secret_of(name, one) for one in which or ("a",))
    return SourceConfig(
        provider=name,
        secrets=secrets,
        public_url=PUBLIC_URL,
        options=options | changes,
        tolerance_s=sender_named(name).tolerance_s,
    )


def ours(name: str, type: str, *, now: float = NOW, config: SourceConfig | None = None) -> Request:
    """Return a sample as `onceward trigger` sends it."""
    sender, config = sender_named(name), config or source(name)
    return sender.request(config, sender.encode(sender.sample(type)), now, type=type, path=f"/webhooks/{name}")


def theirs(name: str, type: str, *, now: float = NOW, which: str = "a") -> Request:
    """Return a sample with the signature that the second implementation makes of it."""
    request = ours(name, type, now=now, config=source(name, which))
    signed = set(sender_named(name).verification.signature_headers) | {"authorization"}
    plain = {header: value for header, value in request.headers.items() if header not in signed}
    url = PUBLIC_URL + request.url_path + (f"?{request.query}" if request.query else "")
    delivery = Delivery(secret_of(name, which), request.body, now, url, "evt_2yTqVbWn8mRk")
    if name in BODIES:
        delivery = replace(delivery, body=BODIES[name](delivery))
    query = QUERIES[name](delivery) if name in QUERIES else request.query
    return replace(request, headers=plain | RECIPES[name](delivery), body=delivery.body, query=query)


def first_type(name: str) -> str:
    return next(iter(sender_named(name).samples))
