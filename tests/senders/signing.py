"""Signatures made without our code: `hashlib`, `hmac` and `cryptography` alone. Each function returns how a sender
makes its headers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qsl

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils


@dataclass(frozen=True)
class Delivery:
    """What a sender knows when it signs."""

    secret: str
    body: bytes
    now: float
    url: str
    id: str

    @property
    def s(self) -> str:
        return str(int(self.now))

    @property
    def ms(self) -> str:
        return str(int(self.now * 1000))

    @property
    def iso(self) -> str:
        return datetime.fromtimestamp(self.now, UTC).isoformat().replace("+00:00", "Z")

    @property
    def http_date(self) -> str:
        return format_datetime(datetime.fromtimestamp(int(self.now), UTC), usegmt=True)


Sign = Callable[[Delivery], dict[str, str]]


def mac(key: bytes, text: bytes, digest: str = "sha256", form: str = "hex") -> str:
    raw = hmac.new(key, text, digest).digest()
    return encoded(raw, form)


def encoded(raw: bytes, form: str) -> str:
    if form == "hex":
        return raw.hex()
    if form == "base64url":
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")
    return base64.b64encode(raw).decode()


def key_of(secret: str, key: str) -> bytes:
    match key:
        case "hex":
            return bytes.fromhex(secret)
        case "base64":
            return base64.b64decode(secret)
        case "whsec":
            return base64.b64decode(secret.removeprefix("whsec_"))
        case "sha1":
            return hashlib.sha1(secret.encode(), usedforsecurity=False).digest()
        case _:
            return secret.encode()


def body(header: str, digest: str = "sha256", form: str = "hex", prefix: str = "", key: str = "text") -> Sign:
    """One header with the HMAC of the body."""
    return lambda d: {header: prefix + mac(key_of(d.secret, key), d.body, digest, form)}


def stamped(
    text: Callable[[Delivery, bytes], bytes],
    time: str,
    headers: Callable[[str, str], dict[str, str]],
    digest: str = "sha256",
    form: str = "hex",
    key: str = "text",
) -> Sign:
    """The HMAC of a text that contains a time. `headers` gets the time and the signature."""

    def sign(d: Delivery) -> dict[str, str]:
        stamp: str = getattr(d, time)
        return headers(stamp, mac(key_of(d.secret, key), text(d, stamp.encode()), digest, form))

    return sign


def dotted(d: Delivery, stamp: bytes) -> bytes:
    return stamp + b"." + d.body


def colon(d: Delivery, stamp: bytes) -> bytes:
    return stamp + b":" + d.body


def joined(d: Delivery, stamp: bytes) -> bytes:
    return stamp + d.body


def body_first(d: Delivery, stamp: bytes) -> bytes:
    return d.body + stamp


def versioned(version: bytes) -> Callable[[Delivery, bytes], bytes]:
    return lambda d, stamp: version + b":" + stamp + b":" + d.body


def standard(prefix: str = "webhook", key: str = "whsec") -> Sign:
    """Standard Webhooks `v1`."""

    def sign(d: Delivery) -> dict[str, str]:
        text = f"{d.id}.{d.s}.".encode() + d.body
        return {
            f"{prefix}-id": d.id,
            f"{prefix}-timestamp": d.s,
            f"{prefix}-signature": "v1," + mac(key_of(d.secret, key), text, form="base64"),
        }

    return sign


def signed_by(secret: str, text: bytes, sha: int, form: str) -> str:
    """Sign with a private key: Ed25519, RSA PKCS #1 v1.5 or ECDSA in DER."""
    key: Any = serialization.load_pem_private_key(secret.encode(), None, unsafe_skip_rsa_key_validation=True)
    digest = {1: hashes.SHA1, 256: hashes.SHA256, 512: hashes.SHA512}[sha]()
    match key:
        case ed25519.Ed25519PrivateKey():
            raw = key.sign(text)
        case rsa.RSAPrivateKey():
            raw = key.sign(text, padding.PKCS1v15(), digest)
        case ec.EllipticCurvePrivateKey():
            raw = key.sign(text, ec.ECDSA(digest))
        case _:
            raise TypeError(key)
    return encoded(raw, form)


def asymmetric(
    text: Callable[[Delivery], bytes], headers: Callable[[Delivery, str], dict[str, str]], form: str = "base64"
) -> Sign:
    """A signature with a private key over a text."""
    return lambda d: headers(d, signed_by(d.secret, text(d), 256, form))


def stamp_and_body(d: Delivery) -> bytes:
    return d.s.encode() + d.body


def asymmetric_token(
    header: str, algorithm: str, claims: Callable[[Delivery], dict[str, Any] | None], prefix: str = ""
) -> Sign:
    """A JSON Web Token with a private key, made by hand. Without claims, its payload is the body, which is left out."""

    def sign(d: Delivery) -> dict[str, str]:
        made = claims(d)
        head = encoded(json.dumps({"alg": algorithm, "typ": "JWT"}).encode(), "base64url")
        payload = encoded(d.body if made is None else json.dumps(made).encode(), "base64url")
        sha = int(algorithm[2:])
        signed = f"{head}.{payload}"
        raw = base64.b64decode(signed_by(d.secret, signed.encode(), sha, "base64"))
        signature = es256(d.secret, signed) if algorithm == "ES256" else encoded(raw, "base64url")
        return {header: f"{prefix}{head}.{'' if made is None else payload}.{signature}"}

    return sign


def es256(secret: str, text: str) -> str:
    """Sign with an ECDSA key, the two numbers in base64url (RFC 7518)."""
    numbers = utils.decode_dss_signature(base64.b64decode(signed_by(secret, text.encode(), 256, "base64")))
    return encoded(b"".join(number.to_bytes(32) for number in numbers), "base64url")


def sha256(d: Delivery, form: str) -> str:
    return encoded(hashlib.sha256(d.body).digest(), form)


def fields_of(d: Delivery) -> str:
    """Return the names and values of a form, sorted and joined."""
    return "".join(name + value for name, value in sorted(parse_qsl(d.body.decode())))


def every_field_of(d: Delivery) -> str:
    """Return the names and values of a form with those that are empty, sorted and joined."""
    return "".join(name + value for name, value in sorted(parse_qsl(d.body.decode(), keep_blank_values=True)))


def with_field(d: Delivery, name: str, value: str) -> bytes:
    return json.dumps(json.loads(d.body) | {name: value}).encode()


def token(header: str, prefix: str = "") -> Sign:
    return lambda d: {header: prefix + d.secret}


def basic(d: Delivery) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(d.secret.encode()).decode()}


def unsigned_headers(d: Delivery) -> dict[str, str]:
    """The proof is in the body or the query."""
    return {}


def hs256(header: str, claims: Callable[[Delivery], dict[str, Any]], prefix: str = "") -> Sign:
    """A JSON Web Token with HMAC-SHA256 (RFC 7515), made by hand."""

    def sign(d: Delivery) -> dict[str, str]:
        parts = [
            encoded(json.dumps(each).encode(), "base64url") for each in ({"alg": "HS256", "typ": "JWT"}, claims(d))
        ]
        signed = ".".join(parts)
        return {header: f"{prefix}{signed}.{mac(d.secret.encode(), signed.encode(), form='base64url')}"}

    return sign
