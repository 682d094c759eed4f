"""Mercado Pago: `x-signature`, HMAC-SHA256 of the id in the query, `x-request-id` and a time, not of the body."""

from __future__ import annotations

import hmac
from urllib.parse import urlencode

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.families.template import Inputs, query_value
from onceward.webhooks.paths import text_at
from onceward.webhooks.payload import read_json
from onceward.webhooks.provider import Rejected, Request, SourceConfig
from onceward.webhooks.sender import Sender


class MercadoPagoSignature(Hmac):
    """The HMAC of a text of three parts, of which an absent one is left out. The body must name the signed id."""

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        signed = query_value(request, "data.id")
        if not signed:
            raise Rejected("unsigned", "the query has no data.id, so the signature covers nothing")
        self.decide(config, request, now)
        if text_at(read_json(request.body).value, "data.id").lower() != signed.lower():
            raise Rejected("bad_signature", "the body names another object than the signed query")

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        sent = read_json(body).value
        return body, urlencode({"data.id": text_at(sent, "data.id"), "type": text_at(sent, "type")})

    def _digest(self, key: bytes, inputs: Inputs, algorithm: str) -> bytes:
        request_id = inputs.request.optional_header("x-request-id")
        parts = (("id", query_value(inputs.request, "data.id").lower()), ("request-id", request_id))
        text = "".join(f"{name}:{value};" for name, value in (*parts, ("ts", inputs.timestamp)) if value)
        return hmac.digest(key, text.encode("utf-8", "surrogatepass"), algorithm)


SENDER = Sender(
    title="Mercado Pago",
    verification=MercadoPagoSignature(
        header="x-signature",
        signed="id:{query:data.id};request-id:{header:x-request-id};ts:{timestamp};",
        body_is_signed=False,
        separator=",",
        prefix="v1=",
        timestamp_entry="ts=",
        timestamp_unit="any",
        timestamp_limits_age=False,
    ),
    events=Events(type=("action", "type"), ordering="data.id", data="data", strict=True),
    setup=(
        "In Your integrations, choose the application, then Webhooks, Configure notifications, and enter the URL of "
        "the source. The secret key that is shown there is the secret of the source."
    ),
    failure="Mercado Pago wants 200 or 201 within 22 s and tries again.",
    notes=(
        "Only `data.id` is signed, and a body that names another id is refused: fetch the object through the API. "
        "Notifications to a `notification_url` of a single payment may not be signed."
    ),
    samples_from=("mercadopago/devsite-docs your-integrations/webhooks.en.md",),
    facts=(
        "mercadopago/devsite-docs your-integrations/webhooks.en.md (signature, fields, example)",
        "mercadopago.com.mx/developers, notifications (lower case of data.id)",
    ),
    unconfirmed=("the unit of the time (its documents show both)", "deadline and retries"),
)
