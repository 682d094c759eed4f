"""Verify webhooks that an Onceward server (or any sender of Standard Webhooks) has signed."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from onceward_client.errors import VerificationFailed

PREFIX = "whsec_"
MOST_SIGNATURES = 20


def verify_webhook(
    body: bytes | str,
    headers: Mapping[str, str],
    secrets: str | Sequence[str],
    *,
    tolerance_s: float = 300.0,
    now: float | None = None,
) -> Any:
    """Return the parsed body, or raise `VerificationFailed`.

    `body` is what arrived, before anything parsed it. Pass the old and the new secret during a rotation.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        id, timestamp, signatures = (given[f"webhook-{each}"] for each in ("id", "timestamp", "signature"))
    except KeyError as error:
        raise VerificationFailed(f"the header {error.args[0]} is missing") from None
    if not timestamp.isascii() or not timestamp.isdecimal() or len(timestamp) > 12:
        raise VerificationFailed("webhook-timestamp is not a number of seconds")
    if abs((time.time() if now is None else now) - int(timestamp)) > tolerance_s:
        raise VerificationFailed("webhook-timestamp is too old or in the future")
    raw = body.encode() if isinstance(body, str) else bytes(body)
    content = b"%s.%s.%s" % (id.encode(), timestamp.encode(), raw)
    signed = [each[3:] for each in signatures.split(" ") if each.startswith("v1,")][:MOST_SIGNATURES]
    for secret in [secrets] if isinstance(secrets, str) else secrets:
        expected = base64.b64encode(hmac.digest(_key(secret), content, hashlib.sha256)).decode()
        if any(hmac.compare_digest(expected.encode(), each.encode()) for each in signed):
            return json.loads(raw)
    raise VerificationFailed(
        "no signature fits a secret: is it the secret of this endpoint, and the body as it arrived?"
    )


def _key(secret: str) -> bytes:
    if not secret:
        raise ValueError("secret must be the signing secret of the endpoint, not an empty text")
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("the text after whsec_ in the secret is not base64") from None
