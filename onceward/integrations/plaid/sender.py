"""Plaid: `Plaid-Verification` with an ES256 token that contains the hash of the body. The key is asked for by its
id."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson
from pydantic import Field

from onceward.webhooks.events import Arrival, Events, Join
from onceward.webhooks.families import PublishedJwt
from onceward.webhooks.families.fetched_keys import FetchedKeys
from onceward.webhooks.families.published_key import read_key_set
from onceward.webhooks.payload import as_object, as_text
from onceward.webhooks.provider import Fetch, NoOptions, Rejected, Request, SourceConfig
from onceward.webhooks.sender import Sender

KEY_ID: Final = re.compile(r"[0-9a-zA-Z-]{8,64}")
MOST_UNKNOWN: Final = 10
"""How many unknown key ids are asked for in a minute: anybody can send them."""


class PlaidOptions(NoOptions):
    """The account with which keys are asked for. The secret of the source is the API secret."""

    client_id: str = Field(
        min_length=1, description="the client id of your team", examples=["5f1a2b3c4d5e6f7a8b9c0d1e"]
    )
    environment: Literal["production", "sandbox"] = Field(default="production", description="whose keys are asked for")


def _read_key(text: bytes) -> Mapping[str, bytes]:
    key = as_object(as_object(orjson.loads(text)).get("key"))
    if key.get("expired_at"):
        raise Rejected("bad_token", "the key that the request names has expired")
    return read_key_set(orjson.dumps({"keys": [key]}))


@dataclass(frozen=True, kw_only=True)
class PlaidToken(PublishedJwt):
    """A token whose key `POST /webhook_verification_key/get` returns. A private key in PEM as secret signs
    simulated requests."""

    _asked: deque[float] = field(default_factory=deque[float], repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_keys", FetchedKeys(_read_key))

    def decode_secret(self, secret: str) -> bytes:
        return secret.encode()

    async def prepare(self, config: SourceConfig, request: Request, fetch: Fetch) -> Request:
        if _is_pem(config):
            return request
        url, key_id = self._address(config, self.token_of(request))
        if not config.keys:
            raise Rejected("no_secret", "the source has no API secret, so no key can be asked for")
        credentials = {"client_id": config.settings.client_id, "secret": config.keys[0].decode(), "key_id": key_id}

        async def ask(
            url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes | None = None
        ) -> bytes:
            self._count()
            json = {"Content-Type": "application/json"}
            return await fetch(url.partition("#")[0], method="POST", headers=json, body=orjson.dumps(credentials))

        await self._keys.need(url, key_id, ask)
        return request

    def keys_for(self, config: SourceConfig, token: str) -> tuple[Any, ...]:
        return super().keys_for(config, token) if _is_pem(config) else self._keys.get(*self._address(config, token))

    def _address(self, config: SourceConfig, token: str) -> tuple[str, str]:
        key_id = as_text(self._header_of(token).get("kid"))
        if not KEY_ID.fullmatch(key_id):
            raise Rejected("bad_header", "the token names no key")
        return f"https://{config.settings.environment}.plaid.com/webhook_verification_key/get#{key_id}", key_id

    def _count(self) -> None:
        now = time.monotonic()
        while self._asked and self._asked[0] < now - 60:
            self._asked.popleft()
        if len(self._asked) >= MOST_UNKNOWN:
            raise Rejected("certificate_unavailable", "too many unknown keys were named in the last minute")
        self._asked.append(now)


def _is_pem(config: SourceConfig) -> bool:
    return bool(config.keys) and config.keys[0].startswith(b"-----BEGIN")


SENDER = Sender(
    title="Plaid",
    verification=PlaidToken(
        header="plaid-verification", prefix="", algorithms=("ES256",), body_claim="request_body_sha256"
    ),
    events=Events(
        id=Arrival(),
        type=Join("webhook_type", "webhook_code"),
        ordering="item_id",
        strict_type=True,
    ),
    options_model=PlaidOptions,
    setup=(
        "Give the URL of the source as `webhook` when you create a link token. The API secret of your team "
        "is the secret of the source: "
        "it is used to ask Plaid for the keys that sign."
    ),
    failure="Plaid waits 10 s and retries for up to 24 hours.",
    notes="A notification only says that something changed: read it through the API (`/transactions/sync`).",
    samples_from=(
        "plaid/plaid-openapi 2020-09-14.yml (ItemErrorWebhook)",
        "plaid/plaid-openapi 2020-09-14.yml (SyncUpdatesAvailableWebhook)",
    ),
    facts=("plaid.com/docs/api/webhooks/webhook-verification",),
    unconfirmed=("claim and algorithm of the token", "retries"),
)
