"""Standard Webhooks and Svix: `webhook-id`, `webhook-timestamp`, `webhook-signature` (or `svix-..`).

`v1` is HMAC-SHA256 of `id.timestamp.body` with the key in base64 behind `whsec_`; `v1a` is Ed25519 over the
same bytes, verified with a `whpk_` public key. A source may have both kinds of secrets.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from onceward.lazy import lazy_module
from onceward.webhooks.families.encoding import KeyEncoding, check_age, decode, decode_key, encode
from onceward.webhooks.families.hmac_signature import Hmac
from onceward.webhooks.families.public_key import is_signed
from onceward.webhooks.families.signed import Claim
from onceward.webhooks.families.template import Inputs
from onceward.webhooks.provider import ConfigError, Rejected, Request, SourceConfig

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ed25519
else:
    ed25519 = lazy_module("cryptography.hazmat.primitives.asymmetric.ed25519")

_ASYMMETRIC: Final = ("whpk_", "whsk_")


def scheme_with_prefix(prefix: str) -> Hmac:
    """Return the scheme `v1` for one family of header names."""
    return Hmac(
        header=f"{prefix}-signature",
        signed="{id}.{timestamp}.{body}",
        encoding="base64",
        separator=" ",
        prefix="v1,",
        timestamp=f"{prefix}-timestamp",
        signed_id_header=f"{prefix}-id",
        key_encoding="whsec",
    )


@dataclass(frozen=True, kw_only=True)
class StandardWebhooks:
    """Standard Webhooks. `header_prefixes` are the families of header names that the sender may use, the usual one
    first.

    `key_encoding` is `text` for a sender that uses the text of the secret as the key, as Polar does.
    """

    header_prefixes: tuple[str, ...] = ("webhook", "svix")
    key_encoding: KeyEncoding = "whsec"
    signature_headers: tuple[str, ...] = dataclasses.field(init=False, repr=False, compare=False)
    _schemes: tuple[Hmac, ...] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.header_prefixes:
            raise ConfigError("option header_prefixes is empty: give webhook, svix or both")
        schemes = tuple(scheme_with_prefix(prefix.lower()) for prefix in self.header_prefixes)
        object.__setattr__(self, "_schemes", schemes)
        object.__setattr__(self, "signature_headers", tuple(one.signature_headers[0] for one in schemes))

    def decode_secret(self, secret: str) -> bytes:
        if secret.startswith(_ASYMMETRIC):
            return _public_key(secret)
        return decode_key(self.key_encoding, secret)

    def check(self, config: SourceConfig) -> None:
        """Every configuration can work: a source without a secret accepts nothing."""

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        scheme = self._scheme_of(request)
        if not any(_is_public(secret) for secret in config.secrets):
            scheme.verify(config, request, now)
            return
        claim = scheme.read_claim(config, request)
        asymmetric = _asymmetric_texts(scheme, request)
        if not _has_asymmetric_match(scheme, config, claim, asymmetric):
            scheme.match(_hmac_keys(config, asymmetric), claim)
        check_age(claim.made_at, config.tolerance_s, now)

    def message_id(self, request: Request, value: Any = None) -> str:
        """Return the signed id of the message, which is the same in every attempt. For `Events(id=...)`."""
        return request.header(self._scheme_of(request).signed_id_header)

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        if not config.keys:
            raise ConfigError("the source has no secret to sign with", field="secrets")
        secret, scheme = config.secrets[0], self._schemes[0]
        if not _is_public(secret):
            return scheme.sign(config, body, now, **extra)
        if not isinstance(secret, str) or secret.startswith("whpk_"):
            raise ConfigError("a whpk_ public key only verifies: use a whsec_ or whsk_ key to sign")
        event_id = extra.get("event_id") or "msg_1"
        inputs = Inputs(config, Request("POST", "", "", {}, body), str(int(now)), event_id)
        signed = ed25519.Ed25519PrivateKey.from_private_bytes(_seed(secret)).sign(scheme.template.render(inputs))
        return {
            scheme.signed_id_header: event_id,
            scheme.timestamp: str(int(now)),
            scheme.signature_headers[0]: f"v1a,{encode('base64', signed)}",
        }

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        return body, ""

    @property
    def covers_body(self) -> bool:
        return True

    def _scheme_of(self, request: Request) -> Hmac:
        """Return the scheme of a request: of the first family that is there.

        Svix senders may send both with equal values.
        """
        for scheme in self._schemes:
            if scheme.signature_headers[0] in request.headers:
                return scheme
        return self._schemes[0]


def _is_public(secret: bytes | str) -> bool:
    return isinstance(secret, str) and secret.startswith(_ASYMMETRIC)


def _asymmetric_texts(scheme: Hmac, request: Request) -> list[str]:
    entries = request.header(scheme.signature_headers[0]).split(" ")
    return [entry[len("v1a,") :] for entry in entries if entry.startswith("v1a,")]


def _hmac_keys(config: SourceConfig, asymmetric: list[str]) -> tuple[bytes, ...]:
    keys = tuple(key for key, secret in zip(config.keys, config.secrets, strict=True) if not _is_public(secret))
    if config.keys and not keys:
        if asymmetric:
            raise Rejected("bad_signature", "no v1a signature was made with a key of this source")
        raise Rejected("unsupported_algorithm", "the source has only public keys, but the request has no v1a signature")
    return keys


def _has_asymmetric_match(scheme: Hmac, config: SourceConfig, claim: Claim, texts: list[str]) -> bool:
    candidates = [raw for text in texts if (raw := decode("base64", text)) is not None]
    if not candidates:
        return False
    content = scheme.template.render(claim.inputs)
    return any(
        is_signed("ed25519", key, raw, content)
        for key, secret in zip(config.keys, config.secrets, strict=True)
        if _is_public(secret)
        for raw in candidates
    )


def _seed(secret: str) -> bytes:
    raw = decode_key("base64", secret.removeprefix("whsk_"))
    if len(raw) not in (32, 64):
        raise ValueError("a whsk_ key has 32 or 64 bytes")
    return raw[:32]


def _public_key(secret: str) -> bytes:
    if secret.startswith("whsk_"):
        return ed25519.Ed25519PrivateKey.from_private_bytes(_seed(secret)).public_key().public_bytes_raw()
    raw = decode_key("base64", secret.removeprefix("whpk_"))
    if len(raw) != 32:
        raise ValueError("a whpk_ key has 32 bytes")
    ed25519.Ed25519PublicKey.from_public_bytes(raw)
    return raw
