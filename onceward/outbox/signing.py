"""Signatures on what is sent: Standard Webhooks (v1, v1a) and the plain `X-Webhook-*` headers, with one key for both."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets as random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from onceward.outbox.errors import Invalid

PREFIX = "whsec_"
SHORTEST_SECRET = 24
LONGEST_SECRET = 64
MADE_BYTES = 32


def make_secret() -> bytes:
    """A new key."""
    return random.token_bytes(MADE_BYTES)


def show_secret(key: bytes) -> str:
    """A key in the form that Standard Webhooks libraries take."""
    return PREFIX + base64.b64encode(key).decode()


def read_secret(text: str) -> bytes:
    """The key that a customer chose: `whsec_` and base64, or plain text, which stands for its own bytes."""
    if text.startswith(PREFIX):
        try:
            key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            raise Invalid(
                "secret", "what follows whsec_ is not base64; leave the secret out to have one made"
            ) from None
    else:
        key = text.encode()
    if not SHORTEST_SECRET <= len(key) <= LONGEST_SECRET:
        raise Invalid(
            "secret",
            f"has {len(key)} bytes, must have {SHORTEST_SECRET} to {LONGEST_SECRET}; leave it out to have one made",
        )
    return key


@dataclass(frozen=True, slots=True)
class LiveSecret:
    """A key that signs, until it expires where it does. Oldest first in a `Signer`."""

    key: bytes
    expires_at: datetime | None = None

    def sign(self, content: bytes) -> bytes:
        return hmac.digest(self.key, content, "sha256")


class Signer:
    """All live keys of one endpoint."""

    __slots__ = ("_private", "_secrets")

    def __init__(self, secrets: Sequence[LiveSecret], private: Ed25519PrivateKey | None = None) -> None:
        if not secrets:
            raise ValueError("an endpoint needs at least one signing secret")
        self._secrets = tuple(secrets)
        self._private = private

    def headers(self, *, message_id: str, type: str, body: bytes, now: datetime) -> dict[str, str]:
        """The headers for one attempt at `now` (UTC).

        During a rotation `webhook-signature` has one signature for each key. `X-Webhook-Signature` holds one only: that of
        the oldest, so that a receiver has until the end of the overlap to accept the new key.
        """
        second = int(now.timestamp())
        stamp = str(second)
        content = b"%s.%s.%s" % (message_id.encode(), stamp.encode(), body)
        live = [each for each in self._secrets if each.expires_at is None or each.expires_at > now]
        signatures = ["v1," + _base64(each.sign(content)) for each in reversed(live)]
        if self._private is not None:
            signatures.append("v1a," + _base64(self._private.sign(content)))
        plain_stamp = f"{_show_second(second)}.{now.microsecond // 1000:03d}Z"
        return {
            "Content-Type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": stamp,
            "webhook-signature": " ".join(signatures),
            "X-Webhook-Signature": live[0].sign(b"%s.%s" % (plain_stamp.encode(), body)).hex(),
            "X-Webhook-Timestamp": plain_stamp,
            "X-Webhook-Event": type,
        }


@lru_cache(maxsize=8)
def _show_second(second: int) -> str:
    """The same for everything that is signed within it."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def show_public_key(public: bytes) -> str:
    return "whpk_" + base64.b64encode(public).decode()


def _base64(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).decode("ascii")
