"""Tokens of links in mails: random ones, of which only the hash is stored, and signed ones, which name an enrolment."""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from datetime import timedelta
from hashlib import sha256
from typing import Literal
from uuid import UUID

from onceward import Tx
from onceward.trust import ring_keys
from onceward_apps.learning.model import as_uuid
from onceward_apps.learning.store import keys

LINK_DAYS = 180
"""How long a signed link in a mail works."""
CALENDAR_DAYS = 3 * 365
"""How long a calendar that a student has subscribed to works: longer than any course."""
Purpose = Literal["survey", "extension", "ics"]


def new_token() -> str:
    """Return a new token with 32 random bytes."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> bytes:
    """Return what is stored of a token."""
    return sha256(token.encode()).digest()


async def enrollment_token(tx: Tx, purpose: Purpose, enrollment_id: UUID, *, days: int | None = None) -> str:
    """Return `<enrolment id>.<expiry>.<signature>`. The signature is valid for one purpose and one organization."""
    key = ring_keys(await keys.signing_key(tx))[0]
    until = await tx.fetchval("select onceward.now()") + timedelta(days=days or LINK_DAYS)
    text = f"{enrollment_id}.{int(until.timestamp())}"
    return f"{text}.{_sign(key, purpose, text)}"


async def read_enrollment_token(tx: Tx, purpose: Purpose, token: str) -> UUID | None:
    """Return the enrolment that the token names, or None if the token is not valid or has expired."""
    text, _, signature = token.rpartition(".")
    named, _, expiry = text.partition(".")
    enrollment_id = as_uuid(named)
    if enrollment_id is None or not (expiry.isascii() and expiry.isdecimal() and len(expiry) <= 12):
        return None
    given, ring = signature.encode("utf-8", "replace"), ring_keys(await keys.signing_key(tx))
    if not any(hmac.compare_digest(_sign(key, purpose, text).encode(), given) for key in ring):
        return None
    now = await tx.fetchval("select onceward.now()")
    return enrollment_id if int(expiry) > now.timestamp() else None


def _sign(key: bytes, purpose: Purpose, text: str) -> str:
    digest = hmac.digest(key, f"{purpose}:{text}".encode(), sha256)
    return urlsafe_b64encode(digest[:24]).decode()
