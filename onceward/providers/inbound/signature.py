"""Describe and verify HMAC signatures: which header, over which bytes, with which key and encoding, and how old.

Every HMAC scheme of every provider is one `Scheme`. `read_claim`, `match` and `check_age` verify a request by its
scheme; `sign` is their inverse.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Final, Literal

from onceward.providers.inbound.provider import ConfigError, Rejected, Request, SourceConfig

Algorithm = Literal["sha1", "sha256", "sha384", "sha512"]
Encoding = Literal["hex", "base64", "base64url"]
KeyForm = Literal["text", "base64", "hex", "whsec"]
HeaderForm = Literal["plain", "pairs", "list"]
Unit = Literal["s", "ms"]

_PLACEHOLDER: Final = re.compile(r"(\{[a-z]*\})")
# This number of seconds is the year 5138; the same number of milliseconds is 1973.
_LARGEST_SECONDS: Final = 100_000_000_000
_MAX_SIGNATURES: Final = 16
_BLOCK_BYTES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """How one kind of request is signed.

    `form` says how the signature header is written: `plain` is one signature after the prefix `label`;
    `pairs` is `t=..,v1=..` where `label` and `timestamp` name pairs; `list` is `v1,.. v1,..` where `label`
    names the version. Elsewhere `timestamp` and `id` name headers.
    """

    header: str
    content: str = "{body}"
    algorithm: Algorithm = "sha256"
    encoding: Encoding = "hex"
    form: HeaderForm = "plain"
    label: str = ""
    label_required: bool = True
    timestamp: str = ""
    unit: Unit = "s"
    id: str = ""
    parts: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = tuple(part for part in _PLACEHOLDER.split(self.content) if part)
        object.__setattr__(self, "parts", parts)
        for name, needed in (("{timestamp}", self.timestamp), ("{id}", self.id)):
            if name in parts and not needed:
                raise ConfigError(f"content {self.content!r} contains {name}, but no header for it is named")
            if needed and name not in parts:
                raise ConfigError(
                    f"content {self.content!r} does not contain {name}: the signature would not protect it"
                )
        if parts.count("{body}") != 1:
            raise ConfigError(f"content {self.content!r} must contain {{body}} once")
        for part in parts:
            if _PLACEHOLDER.fullmatch(part) and part not in ("{body}", "{timestamp}", "{id}"):
                raise ConfigError(f"content {self.content!r} contains {part}: use {{body}}, {{timestamp}}, {{id}}")


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature of a request as text, with its version or name."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class SignedClaim:
    """What a request claims, not yet verified: its signatures, the signed content, and the time of signing."""

    signatures: tuple[Signature, ...]
    content: bytes
    made_at: float | None


def verify(scheme: Scheme, config: SourceConfig, request: Request, now: float) -> None:
    """Raise Rejected unless a valid key made one of the request's signatures and the request is not expired."""
    claim = read_claim(scheme, request)
    match(scheme, config.keys, claim)
    check_age(claim.made_at, config.tolerance_s, now)


def read_claim(scheme: Scheme, request: Request) -> SignedClaim:
    """Read the headers that a scheme names. This verifies nothing and does not parse the body."""
    text = request.header(scheme.header)
    stamp = ""
    if scheme.form == "pairs":
        pairs = [Signature(*pair) for pair in _pairs(scheme, text)]
        stamps = [pair.text for pair in pairs if scheme.timestamp and pair.label == scheme.timestamp]
        if scheme.timestamp and len(stamps) != 1:
            raise Rejected("bad_header", f"header {scheme.header} must contain {scheme.timestamp}= once")
        stamp = stamps[0] if stamps else ""
        signatures = tuple(pair for pair in pairs if pair.label != scheme.timestamp)
    elif scheme.form == "list":
        signatures = tuple(_versions(text))
    else:
        signatures = (Signature(scheme.label, _after_prefix(scheme, text)),)
    if len(signatures) > _MAX_SIGNATURES:
        raise Rejected("bad_header", f"header {scheme.header} contains more than {_MAX_SIGNATURES} signatures")
    if scheme.timestamp and not stamp:
        stamp = request.header(scheme.timestamp)
    identity = request.header(scheme.id) if scheme.id else ""
    made_at = read_timestamp(stamp, scheme.unit) if stamp else None
    content = b"".join(
        request.body
        if part == "{body}"
        else stamp.encode()
        if part == "{timestamp}"
        else identity.encode()
        if part == "{id}"
        else part.encode()
        for part in scheme.parts
    )
    return SignedClaim(signatures, content, made_at)


def match(scheme: Scheme, keys: tuple[bytes, ...], claim: SignedClaim) -> None:
    """Raise Rejected unless a key made a signature of the scheme's version. Each comparison takes constant time."""
    if not keys:
        raise Rejected("no_secret", "the source has no secret, so no request can be verified")
    candidates = [
        raw
        for signature in claim.signatures
        if signature.label == scheme.label and (raw := decode(scheme.encoding, signature.text)) is not None
    ]
    if not candidates:
        if any(signature.label == scheme.label for signature in claim.signatures):
            raise Rejected("bad_encoding", f"no signature in {scheme.header} is valid {scheme.encoding}")
        raise Rejected("bad_header", f"header {scheme.header} contains no {scheme.label} signature")
    for key in keys:
        expected = hmac.digest(key, claim.content, scheme.algorithm)
        for raw in candidates:
            if hmac.compare_digest(expected, raw):
                return
    raise Rejected("bad_signature", f"no signature in {scheme.header} was made with a secret of this source")


@lru_cache(maxsize=256)
def _keyed(key: bytes) -> Callable[[bytes], str]:
    """Return an HMAC-SHA256 function (RFC 2104) whose two hashes already include the key."""
    block = (sha256(key).digest() if len(key) > _BLOCK_BYTES else key).ljust(_BLOCK_BYTES, b"\0")
    first, second = sha256(bytes(byte ^ 0x36 for byte in block)), sha256(bytes(byte ^ 0x5C for byte in block))

    def mac(content: bytes) -> str:
        inner, outer = first.copy(), second.copy()
        inner.update(content)
        outer.update(inner.digest())
        return outer.hexdigest()

    return mac


def sha256_hex(key: bytes, content: bytes) -> str:
    """Return HMAC-SHA256 in hex. For a short body it takes half the library's time, because the key is hashed once."""
    return _keyed(key)(content)


def check_age(made_at: float | None, tolerance_s: float, now: float) -> None:
    """Raise Rejected if `made_at` differs from `now` by more than the tolerance, in either direction."""
    if made_at is not None and abs(now - made_at) > tolerance_s:
        side = "old" if made_at < now else "in the future"
        raise Rejected(
            "stale_timestamp", f"the signature is {abs(now - made_at):.0f} s {side}; the limit is {tolerance_s} s"
        )


def read_timestamp(text: str, unit: Unit) -> float:
    """Return Unix seconds from digits in the scheme's unit. Reject a number in the other unit."""
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise Rejected("bad_timestamp", "the timestamp is not a whole number")
    number = int(text)
    if (number > _LARGEST_SECONDS) != (unit == "ms"):
        raise Rejected("bad_timestamp", f"the timestamp is not in {'milliseconds' if unit == 'ms' else 'seconds'}")
    return number / 1000 if unit == "ms" else float(number)


def sign(scheme: Scheme, key: bytes, body: bytes, now: float, event_id: str = "") -> dict[str, str]:
    """Return the headers of a request that `verify` accepts at `now`."""
    stamp = str(int(now * 1000) if scheme.unit == "ms" else int(now))
    values = {"{body}": body, "{timestamp}": stamp.encode(), "{id}": event_id.encode()}
    content = b"".join(values[part] if part in values else part.encode() for part in scheme.parts)
    text = encode(scheme.encoding, hmac.digest(key, content, scheme.algorithm))
    headers: dict[str, str] = {}
    if scheme.id:
        headers[scheme.id] = event_id
    if scheme.form == "pairs":
        prefix = f"{scheme.timestamp}={stamp}," if scheme.timestamp else ""
        headers[scheme.header] = f"{prefix}{scheme.label}={text}"
    else:
        if scheme.timestamp:
            headers[scheme.timestamp] = stamp
        headers[scheme.header] = f"{scheme.label},{text}" if scheme.form == "list" else scheme.label + text
    return headers


def decode(encoding: Encoding, text: str) -> bytes | None:
    """Return the bytes of a signature, or None if the text is not in that encoding."""
    try:
        if encoding == "hex":
            return binascii.unhexlify(text)
        if encoding == "base64url":
            text = text.replace("-", "+").replace("_", "/")
            text += "=" * (-len(text) % 4)
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def encode(encoding: Encoding, raw: bytes) -> str:
    """Encode the bytes of a signature: the inverse of `decode`."""
    if encoding == "hex":
        return raw.hex()
    if encoding == "base64url":
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
    return base64.b64encode(raw).decode()


def decode_key(form: KeyForm, secret: str) -> bytes:
    """Return the key bytes of a secret as a provider shows it. The ValueError for a malformed secret does not contain it."""
    if form == "text":
        return secret.encode()
    if form == "hex":
        try:
            return binascii.unhexlify(secret)
        except ValueError:
            raise ValueError("it is not hexadecimal") from None
    text = secret.removeprefix("whsec_") if form == "whsec" else secret
    try:
        # Some tools drop the padding when they show a secret.
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except ValueError:
        raise ValueError("it is not base64") from None


def _pairs(scheme: Scheme, text: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals:
            raise Rejected("bad_header", f"header {scheme.header} is not a list of name=value")
        pairs.append((name, value))
    return pairs


def _versions(text: str) -> list[Signature]:
    # An entry without a comma has no version that we know. The other entries may still be valid.
    return [Signature(*entry.split(",", 1)) for entry in text.split(" ") if "," in entry]


def _after_prefix(scheme: Scheme, text: str) -> str:
    if text.startswith(scheme.label):
        return text[len(scheme.label) :]
    if scheme.label_required:
        raise Rejected("bad_header", f"header {scheme.header} does not start with {scheme.label}")
    return text
