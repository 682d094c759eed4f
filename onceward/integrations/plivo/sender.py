"""Plivo: `X-Plivo-Signature-V3`, base64 HMAC-SHA256 of the URL, the sorted fields of the form and a nonce."""

from __future__ import annotations

import hmac
from typing import Any, Final

from onceward.webhooks.events import FORM, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.families.template import Inputs, configured_url
from onceward.webhooks.payload import body_key, read_form
from onceward.webhooks.provider import Rejected, Request, SourceConfig
from onceward.webhooks.sender import Sender

NONCE: Final = "x-plivo-signature-v3-nonce"


class PlivoSignature(Hmac):
    """The HMAC of the URL, the names and values of the form, and the nonce. The query is sorted too."""

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        if not request.headers.get("content-type", "").lower().startswith(FORM):
            raise Rejected("bad_body", "the body is not a form: choose the method POST at Plivo")
        super().verify(config, request, now)

    def _digest(self, key: bytes, inputs: Inputs, algorithm: str) -> bytes:
        request = inputs.request
        url, _, query = configured_url(inputs.config, request).partition("?")
        asked = "&".join(f"{name}={value}" for name, value in sorted(read_form(query)))
        sent = signed_fields(request)
        between = "?" if asked or sent else ""
        text = f"{url}{between}{asked}{'.' if asked and sent else ''}{sent}.{request.header(NONCE)}"
        return hmac.digest(key, text.encode("utf-8", "surrogatepass"), algorithm)


def signed_fields(request: Request) -> str:
    """Return the sorted names and values of the form."""
    return "".join(name + value for name, value in sorted(read_form(request.body)))


def _event_id(request: Request, value: Any) -> str:
    """Return a hash of the signed text of the form.

    The text does not show where a name ends, so fields that are read as others do not make another event.
    """
    return body_key(signed_fields(request).encode("utf-8", "surrogatepass"))


SENDER = Sender(
    title="Plivo",
    verification=PlivoSignature(
        header=("x-plivo-signature-v3", "x-plivo-signature-ma-v3"),
        signed="{url}.{form}.{header:x-plivo-signature-v3-nonce}",
        encoding="base64",
        separator=",",
    ),
    events=Events(
        body="any",
        id=_event_id,
        type=("Status", "CallStatus", "Event"),
        default_type="received",
        ordering=("MessageUUID", "CallUUID"),
    ),
    form="fields",
    setup=(
        "Give the URL of the source as `url` of a message (or as message URL of an application) with the method "
        "POST. The auth token of the account or subaccount is the secret of the source. Plivo signs the URL: give "
        "`--public-url`."
    ),
    notes=(
        "A nonce is signed, but no time. `X-Plivo-Signature-MA-V3` is the same signature with the token of the main "
        "account. For an application that still has version 2 use `plivo_v2`."
    ),
    facts=(
        "plivo/plivo-python plivo/utils/signature_v3.py (signature)",
        "plivo.com/docs/messaging/api/message/message-status-callbacks (fields)",
    ),
    unconfirmed=("the header of the main account", "the fields of calls", "retries"),
)
