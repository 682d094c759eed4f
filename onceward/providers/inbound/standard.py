"""Standard Webhooks and Svix: `webhook-id`, `webhook-timestamp`, `webhook-signature` (or `svix-..`).

`v1` is HMAC-SHA256 of `id.timestamp.body` with the key in base64 behind `whsec_`; `v1a` is Ed25519 over the
same bytes, verified with a `whpk_` public key. A source may have both kinds of secrets.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from onceward.lazy import lazy_module
from onceward.providers.inbound import signature
from onceward.providers.inbound.payload import as_object, as_text, item, read_json
from onceward.providers.inbound.provider import ConfigError, Provider, ReceivedItem, Rejected, Request, SourceConfig
from onceward.providers.inbound.samples import apply_fields, iso_now, token

if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives.asymmetric import ed25519
else:
    exceptions = lazy_module("cryptography.exceptions")
    ed25519 = lazy_module("cryptography.hazmat.primitives.asymmetric.ed25519")


def scheme_with_prefix(prefix: str) -> signature.Scheme:
    """Return the scheme for one family of header names."""
    return signature.Scheme(
        header=f"{prefix}-signature",
        content="{id}.{timestamp}.{body}",
        encoding="base64",
        form="list",
        label="v1",
        timestamp=f"{prefix}-timestamp",
        id=f"{prefix}-id",
    )


WEBHOOK: Final = scheme_with_prefix("webhook")
SVIX: Final = scheme_with_prefix("svix")
_ASYMMETRIC: Final = ("whpk_", "whsk_")


class Standard(Provider):
    """Senders retry for days. The event id is the message id, which is the same in every attempt."""

    name: ClassVar[str] = "standard"
    title: ClassVar[str] = "Standard Webhooks and Svix"
    sample_types: ClassVar[tuple[str, ...]] = ("invoice.paid", "user.created")

    def decode_secret(self, secret: str, settings: Any) -> bytes:
        if secret.startswith(_ASYMMETRIC):
            return _public_key(secret)
        return signature.decode_key("whsec", secret)

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        scheme = _scheme_of(request)
        claim = signature.read_claim(scheme, request)
        if not _has_asymmetric_match(config, claim):
            signature.match(scheme, _hmac_keys(config, claim), claim)
        signature.check_age(claim.made_at, config.tolerance_s, now)

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        document = read_json(request.body)
        envelope = as_object(document.value)
        return [
            item(
                document,
                event_id=request.header(_scheme_of(request).id),
                type=as_text(envelope.get("type") or envelope.get("eventType")),
            )
        ]

    def data(self, payload: Any) -> Any:
        return as_object(payload).get("data", payload)

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        event_id = extra.get("event_id") or token("msg_", 27)
        secret = config.secrets[0]
        headers = {"content-type": "application/json"}
        if not (isinstance(secret, str) and secret.startswith(_ASYMMETRIC)):
            return headers | signature.sign(WEBHOOK, config.keys[0], body, now, event_id)
        if secret.startswith("whpk_"):
            raise ConfigError("a whpk_ public key only verifies: use a whsec_ or whsk_ key to sign")
        content = f"{event_id}.{int(now)}.".encode() + body
        signed = ed25519.Ed25519PrivateKey.from_private_bytes(_seed(secret)).sign(content)
        return headers | {
            WEBHOOK.id: event_id,
            WEBHOOK.timestamp: str(int(now)),
            WEBHOOK.header: f"v1a,{base64.b64encode(signed).decode()}",
        }

    def sample(self, type: str, fields: Mapping[str, Any] | None = None) -> Any:
        payload = {"type": type, "timestamp": iso_now(), "data": {"id": token("obj_", 16), "amount": 4200}}
        return apply_fields(payload, fields)


def _scheme_of(request: Request) -> signature.Scheme:
    """Return the scheme of a request. Svix senders may send both header families with equal values."""
    return SVIX if "svix-signature" in request.headers and WEBHOOK.header not in request.headers else WEBHOOK


def _live_keys(config: SourceConfig) -> list[tuple[bytes, bool]]:
    """Return each key, and whether it is a public key."""
    return [
        (key, isinstance(secret, str) and secret.startswith(_ASYMMETRIC))
        for key, secret in zip(config.keys, config.secrets, strict=True)
    ]


def _hmac_keys(config: SourceConfig, claim: signature.SignedClaim) -> tuple[bytes, ...]:
    keys = tuple(key for key, public in _live_keys(config) if not public)
    if config.keys and not keys:
        if any(entry.label == "v1a" for entry in claim.signatures):
            raise Rejected("bad_signature", "no v1a signature was made with a key of this source")
        raise Rejected("unsupported_algorithm", "the source has only public keys, but the request has no v1a signature")
    return keys


def _has_asymmetric_match(config: SourceConfig, claim: signature.SignedClaim) -> bool:
    candidates = [
        raw
        for entry in claim.signatures
        if entry.label == "v1a" and (raw := signature.decode("base64", entry.text)) is not None
    ]
    for key, is_public in _live_keys(config) if candidates else ():
        if not is_public:
            continue
        for raw in candidates:
            try:
                ed25519.Ed25519PublicKey.from_public_bytes(key).verify(raw, claim.content)
            except exceptions.InvalidSignature:
                continue
            return True
    return False


def _seed(secret: str) -> bytes:
    raw = signature.decode_key("base64", secret.removeprefix("whsk_"))
    if len(raw) not in (32, 64):
        raise ValueError("a whsk_ key has 32 or 64 bytes")
    return raw[:32]


def _public_key(secret: str) -> bytes:
    if secret.startswith("whsk_"):
        return ed25519.Ed25519PrivateKey.from_private_bytes(_seed(secret)).public_key().public_bytes_raw()
    raw = signature.decode_key("base64", secret.removeprefix("whpk_"))
    if len(raw) != 32:
        raise ValueError("a whpk_ key has 32 bytes")
    ed25519.Ed25519PublicKey.from_public_bytes(raw)
    return raw
