"""Mollie, classic webhooks: an unsigned form with an id. The payment is fetched through the API before anything is
stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.payload import as_object, as_text, read_form, read_object
from onceward.webhooks.provider import Fetch, ProviderReply, Rejected, Request, SourceConfig
from onceward.webhooks.sender import Sender

ID: Final = re.compile(r"(tr|ord|re|sub)_[A-Za-z0-9.]{4,40}")
PATHS: Final[Mapping[str, str]] = {"tr": "payments", "ord": "orders"}


class FetchedRequest(Request):
    """A request whose body is what the API of the sender answered."""


@dataclass(frozen=True, kw_only=True)
class FetchBack:
    """The request proves nothing: it only names a payment or order.

    Onceward fetches it from `https://api.mollie.com` with the API key, which is the secret of the source. What the
    API answers is the body of the event.
    """

    summary: str = "none: fetched through the API"
    signature_headers: tuple[str, ...] = ()

    @property
    def covers_body(self) -> bool:
        return True

    def decode_secret(self, secret: str) -> bytes:
        if not re.fullmatch(r"(live|test)_[A-Za-z0-9]{10,100}", secret):
            raise ValueError("it is not an API key (live_... or test_...)")
        return secret.encode()

    def sample_secret(self, which: str) -> str:
        """Return a key for samples."""
        return f"test_{which}" + "1b2c3d4e5f" * 3

    def check(self, config: SourceConfig) -> None:
        """Every configuration can work: a source without a secret accepts nothing."""

    async def prepare(self, config: SourceConfig, request: Request, fetch: Fetch) -> Request:
        sent = dict(read_form(request.body)).get("id", "")
        kind = PATHS.get(sent.partition("_")[0])
        if kind is None or not ID.fullmatch(sent):
            raise Rejected("bad_body", "the form has no id of a payment or order")
        if not config.keys:
            raise Rejected("no_secret", "the source has no API key, so nothing can be fetched")
        headers = {"Authorization": f"Bearer {config.keys[0].decode()}", "Accept": "application/json"}
        body = await fetch(f"https://api.mollie.com/v2/{kind}/{sent}", headers=headers)
        if as_text(read_object(body).value.get("id")) != sent:
            raise Rejected("bad_body", "the API answered with another object")
        return FetchedRequest(request.method, request.url_path, request.query, request.headers, body)

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        if not isinstance(request, FetchedRequest):
            raise Rejected("unsigned", "the object has not been fetched through the API")

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        return {}

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        return body, ""


@dataclass(frozen=True, kw_only=True, eq=False)
class MollieSender(Sender):
    """A sender whose requests only contain the id of a payment."""

    def encode(self, payload: Any) -> bytes:
        return urlencode({"id": as_text(as_object(orjson.loads(orjson.dumps(payload))).get("id"))}).encode()


SENDER = MollieSender(
    title="Mollie (classic webhooks)",
    verification=FetchBack(),
    events=Events(
        id=Derive("id", "status", "amountRefunded", "amountChargedBack"),
        type=lambda request, value: _type(value),
        ordering="id",
    ),
    form="fields",
    accepted_reply=ProviderReply(status=200),
    setup=(
        "Give the URL of the source as `webhookUrl` of a payment or order. The API key of the profile is the "
        "secret of the source. Limit "
        "the requests of the source (`--requests-per-s`): each causes a call of the API."
    ),
    failure="Mollie retries ten times within 26 hours.",
    notes="One id arrives many times. An event is a change of its status, its refunds or its chargebacks.",
    facts=("mollie/mollie-api-php docs (classic webhooks)",),
    unconfirmed=("the form field `id`", "retries"),
)


def _type(value: Any) -> str:
    """Return the resource and its status: `payment.paid`."""
    sent = as_object(value)
    return f"{as_text(sent.get('resource')) or 'payment'}.{as_text(sent.get('status')) or 'unknown'}"
