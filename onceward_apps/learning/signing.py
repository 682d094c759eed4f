"""Tokens of links in mails: random ones, of which only the hash is stored, and signed ones, which name an enrolment."""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Literal
from uuid import UUID

from onceward import Tx
from onceward.trust import ring_keys
from onceward_apps.learning.model import as_uuid
from onceward_apps.learning.store import keys

Purpose = Literal["survey", "extension", "ics"]


def new_token() -> str:
    """Return a new token with 32 random bytes."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> bytes:
    """Return what is stored of a token."""
    return sha256(token.encode()).digest()


async def enrollment_token(tx: Tx, purpose: Purpose, enrollment_id: UUID) -> str:
    """Return `<enrolment id>.<signature>`. The signature is valid for one purpose and one organization."""
    key = ring_keys(await keys.signing_key(tx))[0]
    return f"{enrollment_id}.{_sign(key, purpose, enrollment_id)}"


async def read_enrollment_token(tx: Tx, purpose: Purpose, token: str) -> UUID | None:
    """Return the enrolment that the token names, or None if the token is not valid."""
    enrollment_id = as_uuid(token.partition(".")[0])
    if enrollment_id is None:
        return None
    for key in ring_keys(await keys.signing_key(tx)):
        expected = f"{enrollment_id}.{_sign(key, purpose, enrollment_id)}"
        if hmac.compare_digest(expected.encode(), token.encode()):
            return enrollment_id
    return None


def _sign(key: bytes, purpose: Purpose, enrollment_id: UUID) -> str:
    digest = hmac.digest(key, f"{purpose}:{enrollment_id}".encode(), sha256)
    return urlsafe_b64encode(digest[:24]).decode()
