"""Microsoft Graph change notifications: `clientState` in each item, and the validation of a subscription."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

import orjson

from onceward.webhooks.events import Arrival, Events
from onceward.webhooks.handshakes import EchoQuery
from onceward.webhooks.payload import as_list, as_object, as_text, read_object
from onceward.webhooks.provider import ProviderReply, Rejected, Request, SourceConfig
from onceward.webhooks.sender import Sender


@dataclass(frozen=True, kw_only=True)
class ClientState:
    """`clientState` of every item must be a secret of the source: one request may contain items of several
    subscriptions."""

    summary: str = "none: a shared token"
    proof_field: str = "value.0.clientState"
    signature_headers: tuple[str, ...] = ()

    @property
    def covers_body(self) -> bool:
        return False

    def decode_secret(self, secret: str) -> bytes:
        return secret.encode()

    def check(self, config: SourceConfig) -> None:
        """Every configuration can work: a source without a secret accepts nothing."""

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        items = as_list(read_object(request.body).value.get("value"))
        if not config.keys:
            raise Rejected("no_secret", "the source has no secret, so no request can be verified")
        if not items:
            raise Rejected("bad_body", "the body has no value")
        for each in items:
            state = as_text(as_object(each).get("clientState")).encode("utf-8", "surrogatepass")
            if not any(hmac.compare_digest(key, state) for key in config.keys):
                raise Rejected("bad_token", "clientState of an item does not belong to this source")

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        return {}

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        sent = read_object(body).value
        for each in as_list(sent.get("value")):
            as_object(each)["clientState"] = config.keys[0].decode() if config.keys else ""
        return orjson.dumps(sent), ""


SENDER = Sender(
    title="Microsoft Graph",
    verification=ClientState(),
    events=Events(
        items="value",
        id=("id", Arrival()),
        type=("lifecycleEvent", "changeType"),
        ordering="resource",
        strict_type=True,
    ),
    handshake=EchoQuery(name="validationToken", method="POST"),
    accepted_reply=ProviderReply(status=202),
    setup=(
        "Create the subscription with `POST /subscriptions`, the URL of the source as `notificationUrl` and "
        "a `clientState` of up to 128 "
        "characters: it is the secret of the source. Renew subscriptions before they expire."
    ),
    failure="Graph wants a 2xx within 3 s and retries for four hours. It throttles slow endpoints.",
    notes="A notification only says that something changed: read it through the API, with a delta query.",
    facts=("microsoftgraph/microsoft-graph-docs-contrib change-notifications-delivery-webhooks.md",),
    unconfirmed=("the query parameter `validationToken`", "the field `id` of an item"),
)
