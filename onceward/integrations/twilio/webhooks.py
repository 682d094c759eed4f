"""Twilio: `X-Twilio-Signature`, base64 HMAC of the public URL and, for forms, every sorted name and value.

Twilio signs the URL that it was configured with. A proxy hides this URL, so it is rebuilt from the source's
`public_url`, never from Host. Twilio is inconsistent about default ports and `'` in queries, so each form is tried.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit

from onceward.webhooks.families.encoding import decode
from onceward.webhooks.families.template import configured_url, sorted_fields
from onceward.webhooks.payload import (
    Document,
    as_list,
    as_object,
    as_text,
    body_key,
    derived_key,
    form_object,
    is_storable,
    item,
    read_form,
    read_json,
)
from onceward.webhooks.provider import (
    ConfigError,
    Provider,
    ProviderReply,
    ReceivedItem,
    Rejected,
    Request,
    SourceConfig,
)
from onceward.webhooks.samples import apply_fields

HEADER: Final = "x-twilio-signature"
SETTINGS_HEADER: Final = "x-twilio-webhooks-signature-settings"
SID_LENGTH: Final = 34
_ALGORITHMS: Final[Mapping[str, str]] = {"HMAC_SHA1": "sha1", "HMAC_SHA256": "sha256"}
_FORM: Final = "application/x-www-form-urlencoded"
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


class TwilioWebhooks(Provider):
    """Twilio retries once, and only if it cannot connect: an error response loses the callback."""

    name = "twilio"
    title = "Twilio"
    accepted_reply = ProviderReply(status=204)  # Twilio reads a body as instructions
    retries = False

    def check(self, config: SourceConfig) -> None:
        if config.public_url is None:
            raise ConfigError(
                "public_url of twilio source is missing: set it, because Twilio signs the URL", field="public_url"
            )
        try:
            parts = urlsplit(config.public_url)
            _ = parts.port
        except ValueError as error:
            raise ConfigError(f"public_url of twilio source: {error}", field="public_url") from None
        if not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(
                "public_url of twilio source must be scheme, host and optional path only", field="public_url"
            )

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        sent_signature = decode("base64", request.header(HEADER))
        if sent_signature is None:
            raise Rejected("bad_encoding", f"header {HEADER} is not base64")
        if not config.keys:
            raise Rejected("no_secret", "the source has no auth token, so no request can be verified")
        algorithm = _algorithm(request)
        suffix = _signed_fields(request)
        for url in _urls(config, request):
            content = (url + suffix).encode("utf-8", "surrogatepass")
            for key in config.keys:
                if hmac.compare_digest(hmac.digest(key, content, algorithm), sent_signature):
                    return
        raise Rejected("bad_signature", "no secret of this source signed this URL and form: check public_url")

    def signature_headers(self, config: SourceConfig) -> tuple[str, ...]:
        return (HEADER,)

    def decode_secret(self, secret: str, settings: Any) -> bytes:
        return secret.encode()

    def data(self, payload: Any) -> Any:
        return payload

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        if request.method != "GET" and not _is_form(request):
            return _from_json(request)
        fields = read_form(request.query if request.method == "GET" else request.body)
        value = form_object(fields)
        return [_from_fields(request, Document(value, not is_storable(value)))]

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        """Sign a request. `path` and `query` are its address under the source's `public_url`."""
        headers = {"content-type": extra.get("content_type", _FORM)}
        request = Request("POST", extra.get("path", ""), extra.get("query", ""), headers, body)
        content = configured_url(config, request) + _signed_fields(request)
        signed = hmac.digest(config.keys[0], content.encode(), "sha1")
        return headers | {HEADER: base64.b64encode(signed).decode()}

    def encode(self, payload: Any) -> bytes:
        return urlencode(as_object(payload), doseq=True).encode()

    def change_type(self, payload: Any, type: str) -> Any:
        status = type.rpartition(".")[2]
        return apply_fields(payload, {"SmsStatus": status, "MessageStatus": status})


def _is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").lower().startswith(_FORM)


def _algorithm(request: Request) -> str:
    """Return SHA-1, unless the request names another algorithm that we allow."""
    for part in request.optional_header(SETTINGS_HEADER).split(","):
        name, _, value = part.strip().partition("=")
        if name == "algorithm":
            if value.upper() not in _ALGORITHMS:
                raise Rejected("unsupported_algorithm", "the signature is neither HMAC_SHA1 nor HMAC_SHA256")
            return _ALGORITHMS[value.upper()]
    return "sha1"


def _signed_fields(request: Request) -> str:
    """Return the signed text after the URL. Raise Rejected for a body that neither the fields nor a hash covers."""
    if request.method == "GET":
        return ""
    if _is_form(request):
        return sorted_fields(request)
    hashes = [value for name, value in read_form(request.query) if name == "bodySHA256"]
    if not hashes and not request.body:
        return ""
    computed = hashlib.sha256(request.body).hexdigest()
    if len(hashes) != 1 or not hmac.compare_digest(computed.encode(), hashes[0].lower().encode()):
        raise Rejected("bad_signature", "the body does not match the signed bodySHA256")
    return ""


def _urls(config: SourceConfig, request: Request) -> list[str]:
    try:
        parts = urlsplit(configured_url(config, request))
        netlocs = _netlocs(parts)
    except ValueError:
        raise Rejected("bad_header", "the requested URL cannot be read") from None
    spellings = dict.fromkeys((parts.query, parts.query.replace("'", "%27"), parts.query.replace("%27", "'")))
    return [parts._replace(netloc=netloc, query=query).geturl() for netloc in netlocs for query in spellings]


def _netlocs(parts: SplitResult) -> list[str]:
    """Return the host with and without its port: Twilio may omit even a port that is not the default."""
    if parts.port is None:
        return [parts.netloc, f"{parts.netloc}:{_DEFAULT_PORTS.get(parts.scheme, 443)}"]
    return [parts.netloc, parts.netloc.removesuffix(f":{parts.port}")]


def _from_fields(request: Request, document: Document) -> ReceivedItem:
    value = as_object(document.value)
    message = as_text(value.get("MessageSid")) or as_text(value.get("SmsSid"))
    call = as_text(value.get("CallSid"))
    if message:
        # Inbound messages have no MessageStatus; their SmsStatus is `received`.
        status = as_text(value.get("MessageStatus")) or as_text(value.get("SmsStatus")) or "received"
        key, kind = f"{message}:{status}", f"message.{status}"
        if value.get("EventType") or len(message) > SID_LENGTH:
            # A conversation reports one message several times. A longer id is two signed fields written as one.
            key = _signed_key(request)
    elif call:
        status = as_text(value.get("CallStatus")) or "unknown"
        key, kind = (
            ":".join(filter(None, (call, status, as_text(value.get("SequenceNumber"))))),
            f"call.{status}",
        )
    else:
        key = _signed_key(request)
        kind = as_text(value.get("EventType")) or "unknown"
    return item(
        document,
        event_id=key,
        type=kind,
        ordering=message or call,
    )


def _signed_key(request: Request) -> str:
    """Return an id from what the signature covers: who captured a request cannot send it again under another id."""
    signed = request.query.replace("%27", "'") if request.method == "GET" else _signed_fields(request)
    return body_key(signed.encode("utf-8", "surrogatepass"))


def _from_json(request: Request) -> list[ReceivedItem]:
    """Event Streams send a list of events, Conversations a single one."""
    document = read_json(request.body)
    events = as_list(document.value)
    if not isinstance(document.value, list):
        return [_from_event(document)]
    return [_from_event(document.part(one)) for one in events]


def _from_event(document: Document) -> ReceivedItem:
    value = as_object(document.value)
    return item(
        document,
        event_id=as_text(value.get("id")) or derived_key((document.value,)),
        type=as_text(value.get("type")) or as_text(value.get("EventType")),
    )
