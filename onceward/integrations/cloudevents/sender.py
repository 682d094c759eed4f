"""CloudEvents over HTTP: structured, binary and batched, with a bearer token."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Token
from onceward.webhooks.handshakes import Handshake, echo
from onceward.webhooks.payload import read_json
from onceward.webhooks.provider import ProviderReply, ReceivedItem, Request, SourceConfig
from onceward.webhooks.sender import Sender


class AllowOrigin(Handshake):
    """`OPTIONS` with `WebHook-Request-Origin`: the sender asks for permission to send."""

    note = "`OPTIONS` with `WebHook-Request-Origin` is answered with the permission to send."

    def answer(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        if request.method != "OPTIONS":
            return None
        origin = echo(request.header("webhook-request-origin")).decode()
        return ProviderReply(headers=(("webhook-allowed-origin", origin), ("webhook-allowed-rate", "*")))


@dataclass(frozen=True, kw_only=True, eq=False)
class CloudEventsSender(Sender):
    """A sender whose events may have their attributes in headers (`ce-id`): they become structured events."""

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        if "ce-id" not in request.headers:
            return super().parse(config, request)
        names = [name for name in request.headers if name.startswith("ce-") and len(name) > 3]
        event = {name[3:]: request.header(name) for name in names}
        event["datacontenttype"] = request.headers.get("content-type", "application/json")
        if request.body:
            event["data"] = read_json(request.body).value
        structured = Request(request.method, request.url_path, request.query, request.headers, orjson.dumps(event))
        return super().parse(config, structured)


SENDER = CloudEventsSender(
    title="CloudEvents",
    verification=Token(header="authorization", prefix="Bearer ", query="access_token"),
    events=Events(
        id=Derive("source", "id"),
        type="type",
        ordering="subject",
        items=".",
        body="json",
        data="data",
        strict_type=True,
    ),
    handshake=AllowOrigin(),
    setup=(
        "Enter the URL of the source at the sender, and a token that it sends as `Authorization: Bearer ...` "
        "or as the query parameter "
        "`access_token`: it is the secret of the source. Bodies must be JSON."
    ),
    failure="What a failed delivery causes depends on the sender. 410 means: stop; 429 has `Retry-After`.",
    notes="An event is identified by `source` and `id` together, as the specification says.",
    facts=("cloudevents/spec http-webhook.md, http-protocol-binding.md",),
)
