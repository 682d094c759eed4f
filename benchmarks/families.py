"""One generic source for each family of signatures, for `bench ingest ack-families`. All get the same body.

The keys are derived from fixed numbers, so that the server and the load generator have the same ones.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import orjson
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider

BASELINE: Final = "hmac"
OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    BASELINE: {"header": "x-signature"},
    "hmac-sha512": {"header": "x-signature", "algorithm": "sha512", "encoding": "base64"},
    "hmac-timestamp": {
        "header": "x-signature",
        "signed": "{timestamp}.{body}",
        "separator": ",",
        "prefix": "v1=",
        "timestamp_entry": "t=",
    },
    "standard": {"family": "standard"},
    "jwt": {"family": "jwt", "body_claim": "sha256"},
    "token": {"family": "token", "header": "x-token"},
    "basic": {"family": "basic"},
    "ed25519": {"family": "public_key", "header": "x-signature", "algorithm": "ed25519"},
    "ecdsa": {"family": "public_key", "header": "x-signature", "algorithm": "ecdsa-sha256"},
}
ASYMMETRIC: Final = ("ed25519", "ecdsa")
BODY: Final = b'{"id":"evt_%b","type":"charge.succeeded","created":%d,"data":{"object":{"id":"ch_%b","amount":4200,"currency":"eur"}}}'


def path_of(family: str) -> str:
    return f"/webhooks/family-{family}"


def environment() -> dict[str, str]:
    """Return the variables that declare the sources."""
    declared: dict[str, str] = {}
    for family, options in OPTIONS.items():
        variable = f"ONCEWARD_SOURCE_FAMILY_{family.upper().replace('-', '_')}"
        declared |= {
            f"{variable}_PROVIDER": "generic",
            f"{variable}_OPTIONS": orjson.dumps(dict(options)).decode(),
            f"{variable}_SECRET": _secret(family),
        }
    return declared


def request(family: str, id: bytes) -> bytes:
    """Return one signed webhook as the bytes of an HTTP request."""
    now = time.time()
    body = BODY % (id, int(now), id)
    headers = get_provider("generic").sign(_config(family), body, now, event_id=f"evt_{id.decode()}")
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST {path_of(family)} HTTP/1.1\r\nhost: 127.0.0.1\r\n{lines}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@cache
def _config(family: str) -> SourceConfig:
    return SourceConfig(provider="generic", secrets=(_secret(family),), options=OPTIONS[family])


@cache
def _secret(family: str) -> str:
    match family:
        case "ed25519":
            key: Any = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        case "ecdsa":
            key = ec.derive_private_key(2**200 + 7, ec.SECP256R1())
        case "standard":
            return "whsec_" + base64.b64encode(bytes(range(32))).decode()
        case "basic":
            return "onceward:password-of-the-benchmark"
        case _:
            return "secret-of-the-benchmark-long-enough-to-be-one"
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem.decode().strip()
