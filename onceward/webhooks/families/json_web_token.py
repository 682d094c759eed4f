"""JSON Web Tokens beside a body: the token proves the sender, and a claim with a hash binds it to the body."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import re
import warnings
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from onceward.lazy import lazy_module
from onceward.webhooks.families.encoding import Encoding, KeyEncoding, decode_key, encode
from onceward.webhooks.families.signed import HEADER_NAME
from onceward.webhooks.families.template import configured_url
from onceward.webhooks.payload import as_text
from onceward.webhooks.provider import ConfigError, Rejected, Request, SourceConfig

if TYPE_CHECKING:
    import jwt as pyjwt
else:
    pyjwt = lazy_module("jwt")

JwtAlgorithm = Literal["HS256", "HS384", "HS512", "RS256", "RS512", "ES256", "ES384", "EdDSA"]
_UNCHECKED: Final = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}
_LEEWAY_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Jwt:
    """A signed token in a header. The secret is the shared key, or a public key in PEM; `algorithms` are of one kind.

    `body_claim` holds the SHA-256 of the body in `body_encoding`, and `url_claim` that of the URL in hex. A scheme
    without `body_claim` needs `body_is_signed=False`: then anyone who saw one request can send another body.
    `issuer` and `audience` may name an option of the source: `{audience}`. A token without `exp` must have `iat`,
    which may be as old as the source's tolerance.
    """

    header: str = "authorization"
    prefix: str = "Bearer "
    algorithms: tuple[JwtAlgorithm, ...] = ("HS256",)
    key_encoding: KeyEncoding = "text"
    issuer: str = ""
    audience: str = ""
    body_claim: str = ""
    body_encoding: Encoding = "hex"
    body_is_signed: bool = True
    url_claim: str = ""
    signature_headers: tuple[str, ...] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "header", self.header.lower())
        if not HEADER_NAME.fullmatch(self.header):
            raise ConfigError(f"option header is {self.header!r}: it is not the name of a header")
        # A token without a hash of the body is valid for any body until it expires, so it is a credential.
        evidence = (self.header,) if self.body_claim else ()
        object.__setattr__(self, "signature_headers", evidence)
        if not self.algorithms or len({name.startswith("HS") for name in self.algorithms}) != 1:
            raise ConfigError("option algorithms: give either only HS algorithms or only public key algorithms")
        if self.body_is_signed != bool(self.body_claim):
            raise ConfigError("give the option body_claim, or set body_is_signed to false, but not both")

    def decode_secret(self, secret: str) -> bytes:
        is_pem = secret.startswith("-----BEGIN")
        if self.algorithms[0].startswith("HS"):
            if is_pem:
                raise ValueError("it is a public key, which is not secret: give the shared key")
            return decode_key(self.key_encoding, secret)
        if not is_pem:
            raise ValueError("it is not a key in PEM")
        return secret.encode()

    def check(self, config: SourceConfig) -> None:
        if self.url_claim and config.public_url is None:
            raise ConfigError("public_url is missing: set it, because the sender signs the URL", field="public_url")

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        claims = self._read(config, request.header(self.header).removeprefix(self.prefix).strip())
        self._check_claims(config, claims, now)
        if self.body_claim and (request.body or self.body_claim in claims):
            self._compare(self.body_claim, claims, self._hash(request.body))
        if self.url_claim:
            url = configured_url(config, request).encode("utf-8", "surrogatepass")
            self._compare(self.url_claim, claims, hashlib.sha256(url).hexdigest())

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        if not config.keys:
            raise ConfigError("the source has no secret to sign with", field="secrets")
        moment, identity = int(now), extra.get("event_id") or "jti_1"
        claims: dict[str, Any] = {"iat": moment, "nbf": moment, "exp": moment + 60, "jti": identity}
        given = (("iss", self.issuer), ("aud", self.audience))
        claims |= {name: filled(value, config) for name, value in given if value}
        if self.body_claim:
            claims[self.body_claim] = self._hash(body)
        if self.url_claim:
            request = Request("POST", extra.get("path", ""), extra.get("query", ""), {}, body)
            claims[self.url_claim] = hashlib.sha256(configured_url(config, request).encode()).hexdigest()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the sender chose the length of the key
            return {self.header: self.prefix + pyjwt.encode(claims, config.keys[0], algorithm=self.algorithms[0])}

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        return body, ""

    @property
    def covers_body(self) -> bool:
        return self.body_is_signed

    def keys_for(self, config: SourceConfig, token: str) -> tuple[Any, ...]:
        """Return the keys of which one must have signed a token."""
        if not config.keys:
            raise Rejected("no_secret", "the source has no secret, so no request can be verified")
        return config.keys

    def _read(self, config: SourceConfig, token: str) -> dict[str, Any]:
        keys = self.keys_for(config, token)
        if self.algorithms[0].startswith("HS") and (claims := _accepted(keys, token, self.algorithms)) is not None:
            return claims
        try:
            if pyjwt.get_unverified_header(token).get("alg") not in self.algorithms:
                raise Rejected("unsupported_algorithm", "the token's algorithm is not allowed")
        except (pyjwt.PyJWTError, ValueError, TypeError):
            raise Rejected("bad_header", f"header {self.header} is not a JSON Web Token") from None
        for key in keys:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return pyjwt.decode(token, key=key, algorithms=list(self.algorithms), options=_UNCHECKED)  # pyright: ignore
            except (pyjwt.PyJWTError, ValueError, TypeError):
                continue
        raise Rejected("bad_signature", "no key of this source signed the token")

    def _check_claims(self, config: SourceConfig, claims: dict[str, Any], now: float) -> None:
        if self.issuer and claims.get("iss") != filled(self.issuer, config):
            raise Rejected("bad_token", "the token's issuer is not the configured one")
        audience = claims.get("aud")
        if self.audience and filled(self.audience, config) not in (
            audience if isinstance(audience, list) else [audience]
        ):
            raise Rejected("bad_token", "the token's audience is not the configured one")
        expires, begins, issued = (_seconds(claims, name) for name in ("exp", "nbf", "iat"))
        if expires is None and issued is None:
            raise Rejected("bad_timestamp", "the token has neither exp nor iat, so it would be valid for ever")
        if expires is not None and now > expires + _LEEWAY_S:
            raise Rejected("stale_timestamp", f"the token expired {now - expires:.0f} s ago")
        if expires is None and issued is not None and now - issued > config.tolerance_s:
            raise Rejected(
                "stale_timestamp", f"the token is {now - issued:.0f} s old; the limit is {config.tolerance_s} s"
            )
        if max(begins or 0, issued or 0) > now + config.tolerance_s:
            raise Rejected("stale_timestamp", "the token is not valid yet")

    def _compare(self, claim: str, claims: dict[str, Any], expected: str) -> None:
        if not hmac.compare_digest(as_text(claims.get(claim)).encode("utf-8", "surrogatepass"), expected.encode()):
            raise Rejected("bad_signature", f"the token's {claim} does not match the request")

    def _hash(self, body: bytes) -> str:
        return encode(self.body_encoding, hashlib.sha256(body).digest())


def _accepted(keys: tuple[bytes, ...], token: str, algorithms: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the claims of a token in the usual form that a shared key signed.

    It only accepts: whatever it does not accept is decided by PyJWT, which takes twenty times as long.
    """
    head, _, rest = token.partition(".")
    content, _, signature = rest.partition(".")
    algorithm = _algorithm_of(head)
    if algorithm not in algorithms or not token.isascii():
        return None
    signed, sent = f"{head}.{content}".encode(), signature.encode()
    digest = f"sha{algorithm[2:]}"
    for key in keys:
        if hmac.compare_digest(urlsafe_b64encode(hmac.digest(key, signed, digest)).rstrip(b"="), sent):
            try:
                claims = orjson.loads(urlsafe_b64decode(content + "=" * (-len(content) % 4)))
            except ValueError:
                return None
            return claims if isinstance(claims, dict) else None  # pyright: ignore[reportUnknownVariableType]
    return None


@lru_cache(maxsize=64)
def _algorithm_of(head: str) -> str:
    """Return the HMAC algorithm that the header of a token names, or nothing if the header says anything unusual."""
    try:
        header = orjson.loads(urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except ValueError:
        return ""
    if not isinstance(header, dict) or not {"alg"} <= header.keys() <= {"alg", "typ", "kid"}:
        return ""
    algorithm: Any = header["alg"]  # pyright: ignore[reportUnknownVariableType]
    return algorithm if algorithm in ("HS256", "HS384", "HS512") else ""


def filled(text: str, config: SourceConfig) -> str:
    """Return a text with the options of the source that it names: `https://{domain}/keys`. Public for other
    families."""
    if "{" not in text:
        return text
    values = config.settings.model_dump()
    return re.sub(r"\{(\w+)\}", lambda found: str(values.get(found[1]) or ""), text)


def _seconds(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected("bad_timestamp", f"the token's {name} is not a number")
    return float(value)
