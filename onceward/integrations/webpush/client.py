"""Web Push (RFC 8030, 8291, 8292): the body is encrypted for one browser, and VAPID identifies the sender.

The endpoint comes from a browser, so the client must be a GuardedClient.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from onceward.extras import require
from onceward.http import Response
from onceward.integrations.webpush.errors import ERRORS
from onceward.lazy import lazy_module
from onceward.services.call import Client, accepted, call, judge_failure, read_json, retry_after, short_reason
from onceward.services.outcome import Refused, ServiceAnswer

if TYPE_CHECKING:
    import jwt
    import yarl
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
else:
    jwt = lazy_module("jwt")
    yarl = lazy_module("yarl")
    serialization = lazy_module("cryptography.hazmat.primitives.serialization")
    ec = lazy_module("cryptography.hazmat.primitives.asymmetric.ec")

# The encrypted record may have 4096 bytes, of which 86 are the header, 16 the tag and 1 padding.
MAX_PLAIN_BYTES = 4096 - 86 - 16 - 1
_TOKEN_LIFETIME_S = 12 * 3600
# The longest time that we ask a push service to store a message: four weeks.
MAX_TTL_S = 28 * 24 * 3600

Urgency = Literal["very-low", "low", "normal", "high"]


@dataclass(frozen=True, slots=True)
class Subscription:
    """The values of `PushSubscription.toJSON()` in the browser. All of them are private to the person."""

    endpoint: str = field(repr=False)
    p256dh: str = field(repr=False)
    auth: str = field(repr=False)


class VapidKey:
    """The sender's P-256 key: PEM, or its 32 bytes in base64url as `web-push generate-keys` prints them."""

    def __init__(self, private_key: str) -> None:
        self._key = _load(private_key)

    @cached_property
    def public(self) -> str:
        """Return the public key that the browser needs as `applicationServerKey`."""
        point = self._key.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
        return urlsafe_b64encode(point).rstrip(b"=").decode("ascii")

    def header(self, endpoint: str, *, subject: str, now_epoch_s: float) -> str:
        """Return the Authorization header for the push service of an endpoint."""
        claims = {
            "aud": str(yarl.URL(endpoint).origin()),
            "exp": int(now_epoch_s) + _TOKEN_LIFETIME_S,
            "sub": subject,
        }
        return f"vapid t={jwt.encode(claims, self._key, algorithm='ES256')}, k={self.public}"


class WebPush:
    """Pushes for one sender. `subject` (mailto: or https:) is the contact address for push services."""

    # A repeat with the same topic replaces a message that was not shown yet. A message that was shown appears again.
    repeatable: ClassVar[bool] = False

    def __init__(self, client: Client, *, vapid: VapidKey, subject: str, timeout_s: float = 15.0) -> None:
        if not subject.startswith(("mailto:", "https:")):
            raise ValueError(f"subject must start with mailto: or https:, not {subject[:20]!r}")
        require("push", "pywebpush", "web push")  # not at the first push, which would give the message up
        self._client = client
        self._vapid = vapid
        self._subject = subject
        self._timeout_s = timeout_s

    async def push(
        self,
        subscription: Subscription,
        payload: bytes,
        *,
        key: str | None = None,
        ttl_s: int = 24 * 3600,
        urgency: Urgency = "normal",
    ) -> ServiceAnswer:
        """Push once. The key becomes the topic.

        If the outcome is Refused with `detail["gone"]`, delete the subscription.
        """
        if not 0 < len(payload) <= MAX_PLAIN_BYTES:
            return Refused(f"payload has {len(payload)} bytes, Web Push takes 1 to {MAX_PLAIN_BYTES}", permanent=True)
        try:
            body = encrypt(subscription, payload)
            authorization = self._vapid.header(subscription.endpoint, subject=self._subject, now_epoch_s=time.time())
        except Exception as error:
            # The browser's data is invalid: a key is not a point on the curve, or the endpoint is not a URL.
            return Refused(f"subscription is not usable ({error.__class__.__name__})", permanent=True)
        headers = {
            "Authorization": authorization,
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(max(0, min(ttl_s, MAX_TTL_S))),
            "Urgency": urgency,
        }
        if key is not None:
            headers["Topic"] = topic(key)
        return await call(
            self._client,
            "POST",
            subscription.endpoint,
            headers=headers,
            body=body,
            judge=judge,
            timeout_s=self._timeout_s,
        )


def encrypt(subscription: Subscription, payload: bytes) -> bytes:
    # Imported late, because it loads its own HTTP client.
    from pywebpush import WebPusher  # pyright: ignore[reportMissingTypeStubs]

    pusher = WebPusher(
        {
            "endpoint": subscription.endpoint,
            "keys": {"p256dh": subscription.p256dh, "auth": subscription.auth},
        }
    )
    encoded = cast("Mapping[str, Any]", pusher.encode(payload, content_encoding="aes128gcm"))
    return cast("bytes", encoded["body"])


def topic(key: str) -> str:
    """Convert any key to a topic: 32 characters of the base64url alphabet."""
    return urlsafe_b64encode(sha256(key.encode()).digest()).decode("ascii")[:32]


def judge(response: Response) -> ServiceAnswer:
    if response.ok:
        return accepted(response.headers.get("location"), {"status": response.status})
    reason = short_reason(f"HTTP {response.status}")
    said = read_json(response).get("reason")  # Apple names the problem here
    known = ERRORS.judge(said, reason) or ERRORS.judge(
        response.status, reason, retry_after_s=retry_after(response.headers)
    )
    if isinstance(known, Refused) and known.recipient:
        return replace(known, detail={"gone": True})
    return known or judge_failure(response, repeatable=False, reason=reason)


def _load(text: str) -> ec.EllipticCurvePrivateKey:
    stripped = text.strip()
    try:
        if stripped.startswith("-----"):
            key = serialization.load_pem_private_key(stripped.encode(), password=None)
        else:
            raw = urlsafe_b64decode(stripped + "=" * (-len(stripped) % 4))
            if len(raw) == 32:
                return ec.derive_private_key(int.from_bytes(raw), ec.SECP256R1())
            key = serialization.load_der_private_key(raw, password=None)
    except ValueError:
        raise ValueError("the VAPID private key is neither PEM nor base64url; generate a P-256 key") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("the VAPID private key is not on curve P-256; generate one that is")
    return key
