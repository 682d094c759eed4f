"""Tokens and signatures whose public keys the sender publishes: JSON Web Key Sets (RFC 7517), OpenID Connect,
detached JWS."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from onceward.lazy import lazy_module
from onceward.webhooks.families.fetched_keys import FetchedKeys
from onceward.webhooks.families.json_web_token import Jwt, filled
from onceward.webhooks.families.public_key import PublicKey
from onceward.webhooks.families.signed import Claim
from onceward.webhooks.paths import text_at
from onceward.webhooks.payload import as_list, as_object, as_text
from onceward.webhooks.provider import ConfigError, Fetch, Rejected, Request, SourceConfig

if TYPE_CHECKING:
    import jwt as pyjwt
    from cryptography.hazmat.primitives import serialization
else:
    pyjwt = lazy_module("jwt")
    serialization = lazy_module("cryptography.hazmat.primitives.serialization")


def read_key_set(text: bytes) -> Mapping[str, bytes]:
    """Return the public keys of a JSON Web Key Set in PEM, by key id. Keys of unknown kinds are left out."""
    keys: dict[str, bytes] = {}
    for n, each in enumerate(as_list(as_object(orjson.loads(text)).get("keys"))[:64]):
        described = as_object(each)
        if described.get("kty") == "oct":
            continue  # a shared key: nobody publishes one
        try:
            made = pyjwt.PyJWK(described).key
        except (pyjwt.PyJWTError, ValueError, TypeError):
            continue
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        pem = made.public_bytes(serialization.Encoding.PEM, form)
        keys[as_text(described.get("kid")) or f"#{n}"] = pem
    return keys


def read_key_at(path: str) -> Callable[[bytes], Mapping[str, bytes]]:
    """Return a function that reads one public key in PEM at a path of a JSON document."""

    def read(text: bytes) -> Mapping[str, bytes]:
        pem = text_at(orjson.loads(text), path).encode()
        serialization.load_pem_public_key(pem)
        return {path: pem}

    return read


def _pem_of(secret: str) -> bytes:
    if not secret.startswith("-----BEGIN"):
        raise ValueError("it is not a key in PEM")
    return secret.encode()


@dataclass(frozen=True, kw_only=True)
class PublishedJwt(Jwt):
    """A token that is signed with one of the keys at `keys_url`. A source needs no secret.

    `keys_url` may name options of the source (`https://{domain}/.well-known/jwks`). `claims` must have these
    values, which may name options too. `detached` means a JWS whose payload is the body (RFC 7515, RFC 7797). A
    source with a secret uses this key in PEM instead of the published ones; a private key can sign simulated
    requests.
    """

    keys_url: str = ""
    claims: tuple[tuple[str, str], ...] = ()
    detached: bool = False
    _keys: FetchedKeys = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.detached:
            object.__setattr__(self, "body_claim", "payload")
        super().__post_init__()
        if self.algorithms[0].startswith("HS"):
            raise ConfigError("published keys are public: give public key algorithms")
        object.__setattr__(self, "_keys", FetchedKeys(read_key_set))

    def decode_secret(self, secret: str) -> bytes:
        return _pem_of(secret)

    def token_of(self, request: Request) -> str:
        """Return the token of a request."""
        return request.header(self.header).removeprefix(self.prefix).strip()

    async def prepare(self, config: SourceConfig, request: Request, fetch: Fetch) -> Request:
        if not config.keys:
            key_id = self._header_of(self.token_of(request)).get("kid")
            await self._keys.need(filled(self.keys_url, config), as_text(key_id), fetch)
        return request

    def keys_for(self, config: SourceConfig, token: str) -> tuple[Any, ...]:
        if config.keys:
            return tuple(_public(key) for key in config.keys)
        return self._keys.get(filled(self.keys_url, config), as_text(self._header_of(token).get("kid")))

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        if self.detached:
            self._verify_detached(config, request)
            return
        claims = self._read(config, self.token_of(request))
        self._check_claims(config, claims, now)
        for name, expected in self.claims:
            if (wanted := filled(expected, config)) and _text_of(claims.get(name)) != wanted:
                raise Rejected("bad_token", f"the token's {name} is not the configured one")
        if self.body_claim and (request.body or self.body_claim in claims):
            self._compare(self.body_claim, claims, self._hash(request.body))

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        if not config.keys or b"PRIVATE KEY" not in config.keys[0]:
            raise ConfigError(
                "only the sender has the private key: to try it, give the source a private key of your own in PEM",
                field="secrets",
            )
        return {self.header: self.prefix + self.make_token(config, body, now, **extra)}

    def make_token(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> str:
        """Return a token for a body, signed with the private key of a simulated source."""
        if self.detached:
            token = pyjwt.PyJWS().encode(body, _private(config), algorithm=self.algorithms[0])
            first, _, last = token.split(".")
            return f"{first}..{last}"
        claims: dict[str, Any] = {"iat": int(now), "exp": int(now) + 60, "jti": extra.get("event_id") or "jti_1"}
        for name, value in (("iss", self.issuer), ("aud", self.audience), *self.claims):
            if text := filled(value, config):
                claims[name] = text
        if self.body_claim:
            claims[self.body_claim] = self._hash(body)
        return pyjwt.encode(claims, _private(config), algorithm=self.algorithms[0])

    def _header_of(self, token: str) -> dict[str, Any]:
        try:
            return pyjwt.get_unverified_header(token)
        except (pyjwt.PyJWTError, ValueError, TypeError):
            raise Rejected("bad_header", f"header {self.header} is not a JSON Web Token") from None

    def _verify_detached(self, config: SourceConfig, request: Request) -> None:
        token = self.token_of(request)
        head = self._header_of(token)
        if head.get("alg") not in self.algorithms:
            raise Rejected("unsupported_algorithm", "the token's algorithm is not allowed")
        first, _, last = token.split(".", 2)
        body, is_plain = request.body, head.get("b64") is False
        if not is_plain:
            token = f"{first}.{base64.urlsafe_b64encode(body).rstrip(b'=').decode()}.{last}"
        for key in self.keys_for(config, token):
            try:
                payload = body if is_plain else None
                pyjwt.PyJWS().decode(token, key, algorithms=list(self.algorithms), detached_payload=payload)
            except (pyjwt.PyJWTError, ValueError, TypeError):
                continue
            return
        raise Rejected("bad_signature", "no key of this source signed the body")


@dataclass(frozen=True, kw_only=True)
class PublishedKey(PublicKey):
    """A signature with one of the keys at `keys_url`: a JSON Web Key Set, or a document that has a key in PEM at
    `key_path`. A source needs no secret; one that has a secret uses this key instead."""

    keys_url: str = ""
    key_path: str = ""
    key_id_header: str = ""
    _keys: FetchedKeys = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_keys", FetchedKeys(read_key_at(self.key_path) if self.key_path else read_key_set))

    async def prepare(self, config: SourceConfig, request: Request, fetch: Fetch) -> Request:
        if not config.keys:
            self.read_claim(config, request)  # the cheap checks come first
            await self._keys.need(filled(self.keys_url, config), self._key_id(request), fetch)
        return request

    def match(self, keys: tuple[bytes, ...], claim: Claim) -> None:
        if not keys:
            inputs = claim.inputs
            keys = self._keys.get(filled(self.keys_url, inputs.config), self._key_id(inputs.request))
        super().match(keys, claim)

    def _key_id(self, request: Request) -> str:
        return request.header(self.key_id_header) if self.key_id_header else ""


def _public(key: bytes) -> bytes:
    if b"PRIVATE KEY" not in key:
        return key
    public = _load(key).public_key()
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _private(config: SourceConfig) -> Any:
    return _load(config.keys[0])


def _load(key: bytes) -> Any:
    """Read a private key with which someone tries a sender out. To test its primes takes longer than to sign."""
    return serialization.load_pem_private_key(key, password=None, unsafe_skip_rsa_key_validation=True)


def _text_of(claim: Any) -> str:
    return str(claim).lower() if isinstance(claim, bool) else as_text(claim)
