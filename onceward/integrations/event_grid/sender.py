"""Azure Event Grid: a token in the query, and the validation of a subscription."""

from __future__ import annotations

from typing import Any

from onceward.webhooks.events import Events
from onceward.webhooks.families import Token
from onceward.webhooks.handshakes import Handshake, echo
from onceward.webhooks.payload import as_list, as_object, as_text, read_json
from onceward.webhooks.provider import ProviderReply, Request, SourceConfig, json_reply
from onceward.webhooks.sender import Sender

VALIDATION = "Microsoft.EventGrid.SubscriptionValidationEvent"


class Validation(Handshake):
    """The validation of a subscription: an event with a code, or `OPTIONS` for the schema of CloudEvents."""

    note = (
        "The validation of a subscription is answered: the event with a code, and `OPTIONS` of the CloudEvents schema."
    )

    def answer(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        if request.method == "OPTIONS":
            origin = echo(request.header("webhook-request-origin")).decode()
            return ProviderReply(headers=(("webhook-allowed-origin", origin), ("webhook-allowed-rate", "*")))
        if request.method != "POST" or VALIDATION.encode() not in request.body:
            return None
        first: Any = next(iter(as_list(read_json(request.body).value)), None)
        event = as_object(first)
        if event.get("eventType") != VALIDATION:
            return None
        code = echo(as_text(as_object(event.get("data")).get("validationCode")))
        return json_reply({"validationResponse": code.decode()})


SENDER = Sender(
    title="Azure Event Grid",
    verification=Token(query="token"),
    events=Events(
        items=".", body="json", type=("eventType", "type"), ordering="subject", data="data", strict_type=True
    ),
    handshake=Validation(),
    setup=(
        "Create an event subscription with a webhook endpoint: the URL of the source with `?token=` and a "
        "secret of your choice, which "
        "is the secret of the source."
    ),
    failure="Event Grid retries with increasing delays for 24 hours.",
    facts=("MicrosoftDocs/azure-docs event-grid/webhook-event-delivery.md (validation)",),
    unconfirmed=("retries",),
)
