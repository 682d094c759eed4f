"""Sign outbound webhooks: Standard Webhooks (v1, v1a) and the simpler `X-Webhook-*` headers, with the same secret."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets as random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from onceward.outbox.errors import Invalid

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PREFIX = "whsec_"
SHORTEST_SECRET = 24
LONGEST_SECRET = 64
MADE_BYTES = 32


def make_secret() -> bytes:
    """Return a new random key."""
    return random.token_bytes(MADE_BYTES)


def show_secret(key: bytes) -> str:
    """Return the key in the format of Standard Webhooks: `whsec_` and base64."""
    return PREFIX + base64.b64encode(key).decode()


def read_secret(text: str) -> bytes:
    """Return the key that a customer chose. Text without `whsec_` is not decoded: its UTF-8 bytes are the key."""
    if text.startswith(PREFIX):
        try:
            key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            raise Invalid(
                "secret", "the text after whsec_ is not base64; omit the secret to get a generated one"
            ) from None
    else:
        key = text.encode()
    if not SHORTEST_SECRET <= len(key) <= LONGEST_SECRET:
        raise Invalid(
            "secret",
            f"has {len(key)} bytes, must have {SHORTEST_SECRET} to {LONGEST_SECRET}; omit it to get a generated one",
        )
    return key


@dataclass(frozen=True, slots=True)
class LiveSecret:
    """A signing key, with its expiry time if it has one."""

    key: bytes
    expires_at: datetime | None = None

    def sign(self, content: bytes) -> bytes:
        return hmac.digest(self.key, content, "sha256")


class Signer:
    """Signs with all valid keys of one endpoint, which are passed oldest first."""

    __slots__ = ("_private", "_secrets")

    def __init__(self, secrets: Sequence[LiveSecret], private: Ed25519PrivateKey | None = None) -> None:
        if not secrets:
            raise ValueError("an endpoint needs at least one signing secret")
        self._secrets = tuple(secrets)
        self._private = private

    def headers(self, *, message_id: str, type: str, body: bytes, now: datetime) -> dict[str, str]:
        """Return the headers for one attempt at `now` (UTC).

        During a rotation `webhook-signature` has one signature per key. `X-Webhook-Signature` has only the signature of
        the oldest key, so that a receiver has until the end of the overlap to switch to the new key.
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
    """Format a second. Cached, because many deliveries are signed within one second."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def show_public_key(public: bytes) -> str:
    return "whpk_" + base64.b64encode(public).decode()


def _base64(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).decode("ascii")
