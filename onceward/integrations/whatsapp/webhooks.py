"""WhatsApp Cloud API (Meta): `X-Hub-Signature-256: sha256=..` over the raw bytes, many events per body.

Meta escapes non-ASCII text in its JSON and signs the result: a body that was decoded and encoded again does not verify.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from onceward.webhooks.families import Hmac
from onceward.webhooks.payload import (
    Document,
    as_list,
    as_object,
    as_text,
    derived_key,
    item,
    read_form,
    read_object,
)
from onceward.webhooks.provider import (
    ConfigError,
    NoOptions,
    Provider,
    ProviderReply,
    ReceivedItem,
    Rejected,
    Request,
    SourceConfig,
)
from onceward.webhooks.samples import apply_fields


class WhatsAppOptions(NoOptions):
    """`verify_token` is the text entered in the app's dashboard. Meta sends it when it subscribes."""

    verify_token: str | None = None


class WhatsAppWebhooks(Provider):
    """Meta retries for days, without order. Each message, status and other change is one event."""

    name = "whatsapp"
    title = "WhatsApp Cloud API"
    options_model: type[BaseModel] = WhatsAppOptions

    verification = Hmac(header="x-hub-signature-256", prefix="sha256=")

    def check(self, config: SourceConfig) -> None:
        if config.settings.verify_token == "":
            raise ConfigError("option verify_token of whatsapp source is empty: anyone could subscribe")

    def challenge(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        """Answer Meta's subscription check with its challenge if the token is the source's `verify_token`."""
        if request.method != "GET":
            return None
        fields = dict(read_form(request.query))
        expected = config.settings.verify_token
        if fields.get("hub.mode") != "subscribe":
            raise Rejected("bad_body", "the request is not a subscription: hub.mode must be subscribe")
        if not expected:
            raise Rejected("no_secret", "the source has no verify_token, so no subscription can be confirmed")
        sent_token = fields.get("hub.verify_token", "")
        if not hmac.compare_digest(expected.encode(), sent_token.encode("utf-8", "surrogatepass")):
            raise Rejected("bad_token", "hub.verify_token does not match the option of this source")
        challenge = fields.get("hub.challenge", "")
        if not (challenge.isascii() and 0 < len(challenge) <= 512):
            raise Rejected("bad_body", "hub.challenge is missing or cannot be echoed")
        return ProviderReply(challenge.encode())

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        document = read_object(request.body)
        items: list[ReceivedItem] = []
        for entry in as_list(document.value.get("entry")):
            for change in as_list(as_object(entry).get("changes")):
                items.extend(_split(as_object(entry), as_object(change), document))
        return items

    def data(self, payload: Any) -> Any:
        return payload

    def change_type(self, payload: Any, type: str) -> Any:
        kind, _, detail = type.partition(".")
        place = {"message": "value.messages.0.type", "status": "value.statuses.0.status"}.get(kind, "field")
        return apply_fields(payload, {f"entry.0.changes.0.{place}": detail or type})


def _split(entry: dict[str, Any], change: dict[str, Any], whole: Document) -> Iterator[ReceivedItem]:
    """Return one item per message, status and error of a change, each with the data that they share."""
    value = as_object(change.get("value"))
    field = as_text(change.get("field"))
    shared = {"waba_id": entry.get("id"), "field": field, "metadata": value.get("metadata")}
    messages, statuses = as_list(value.get("messages")), as_list(value.get("statuses"))
    errors = as_list(value.get("errors")) if field == "messages" else []
    for raw in messages:
        message = as_object(raw)
        sender, wamid = as_text(message.get("from")), as_text(message.get("id"))
        payload = shared | {"contact": _contact(value, sender), "message": raw}
        yield item(
            whole.part(payload),
            event_id=wamid or derived_key((field, raw)),
            type=f"message.{as_text(message.get('type')) or 'unknown'}",
            ordering=sender,
        )
    for raw in statuses:
        status = as_object(raw)
        wamid, state = as_text(status.get("id")), as_text(status.get("status"))
        stamp = as_text(status.get("timestamp"))
        yield item(
            whole.part(shared | {"status": raw}),
            event_id=":".join(filter(None, (wamid, state, stamp))) if wamid else derived_key((field, raw)),
            type=f"status.{state or 'unknown'}",
            ordering=wamid,
        )
    for raw in errors:
        yield item(
            whole.part(shared | {"error": raw}),
            event_id=derived_key((field, raw, entry.get("time"))),
            type="error",
        )
    if not messages and not statuses and not errors:
        yield item(
            whole.part(shared | {"value": change.get("value"), "time": entry.get("time")}),
            event_id=derived_key((field, change.get("value"), entry.get("time"))),
            type=field,
        )


def _contact(value: dict[str, Any], sender: str) -> Any:
    return next((one for one in as_list(value.get("contacts")) if as_object(one).get("wa_id") == sender), None)
