"""Secrets of organizations: their accounts at outside services, and secrets that apps keep for them.

A secret `SERVICE.FIELD` of a service that has a client is a field of the organization's account there. Any other name
needs `custom`, so that a misspelt service is not stored unnoticed. Values are encrypted, and never returned by the
command line or the API. Every change is audited, without the value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward.db import Database, Transaction
from onceward.services import NotSet, callable_services, check_secret_name
from onceward.trust import audit
from onceward.trust.errors import BadSecret, NotFound
from onceward.trust.secrets import SecretBox, delete_secret, put_secret

MAX_VALUE_CHARACTERS = 8192
CUSTOM_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}\.[a-z0-9_.-]{1,100}")


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """A secret without its value."""

    name: str
    organization_id: UUID
    created_at: datetime
    changed_at: datetime


async def set_secret(
    tx: Transaction, box: SecretBox, name: str, value: str, *, actor: Any, custom: bool = False
) -> None:
    """Store a secret of the transaction's organization, or replace its value."""
    check_name(name, custom=custom)
    if not value.strip() or len(value) > MAX_VALUE_CHARACTERS or any(ord(character) < 32 for character in value):
        raise BadSecret(
            f"the value of {name} must have 1 to {MAX_VALUE_CHARACTERS} characters on one line, without control "
            "characters"
        )
    await put_secret(tx, box, name, value)
    await audit.record(tx, "secret.set", entity_type="secret", entity_id=name, actor=actor)


async def remove_secret(tx: Transaction, name: str, *, actor: Any) -> None:
    """Delete a secret of the transaction's organization. Raises `NotFound`."""
    if not await delete_secret(tx, name):
        raise NotFound(f"secret {name!r} does not exist in this organization")
    await audit.record(tx, "secret.removed", entity_type="secret", entity_id=name, actor=actor)


async def list_secrets(db: Database, organization: UUID | None = None) -> list[StoredSecret]:
    """Return the secrets of one organization, or of all, without their values."""
    rows = await db.fetch(
        "select name, organization_id, created_at, changed_at from onceward.secrets"
        " where organization_id is not null and ($1::uuid is null or organization_id = $1)"
        " order by organization_id, name",
        organization,
    )
    return [StoredSecret(**dict(row)) for row in rows]


def check_name(name: str, *, custom: bool) -> None:
    """Raise `BadSecret` unless the name is a field of a service, or a well-formed name of an app's own (`custom`)."""
    if custom and name.partition(".")[0] not in callable_services():
        if CUSTOM_NAME.fullmatch(name) is None:
            raise BadSecret(f"{name!r} is not a valid name: write app.name with lower-case letters, digits, _ and -")
        return
    try:
        check_secret_name(name)
    except NotSet as error:
        raise BadSecret(f"{error}; a secret of an app's own needs --custom") from None
