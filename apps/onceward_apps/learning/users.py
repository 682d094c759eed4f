"""People: sign up and change the profile. Both publish an event."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import asyncpg

from onceward import Tx
from onceward_apps.learning.activity import record
from onceward_apps.learning.errors import InvalidRequest, LearningError, NotFound
from onceward_apps.learning.store import users

EMAIL = re.compile(r"[^@\s<>\"',;]+@[^@\s<>\"',;]+\.[^@\s<>\"',;]+")
MAX_NAME = 200


async def register(
    tx: Tx,
    *,
    email: str,
    name: str = "",
    avatar: str | None = None,
    locale: str | None = None,
    confirmed: bool = True,
) -> Any:
    """Return the user with this address, and create it if the address is new (`user.registered`).

    A stranger who fills in a form has not `confirmed` the address: until its owner does, it gets only the mail that
    asks for it.
    """
    email, name = checked_email(email), _checked_name(name)
    row = await users.add(tx, email, name, avatar, locale, confirmed=confirmed)
    if row is None:
        existing = await users.by_email(tx, email)
        if existing is None:
            raise LearningError(f"the address {email!r} was registered and removed at this moment: try again")
        return existing
    await record(tx, "user_registered", user_id=row["id"])
    await tx.publish(
        "user.registered", _payload(row) | {"registeredAt": row["created_at"]}, key=f"user:{row['id']}:registered"
    )
    return row


async def find(tx: Tx, user_id: UUID) -> Any:
    return await users.find(tx, user_id)


async def update_profile(
    tx: Tx,
    user_id: UUID,
    *,
    name: str | None = None,
    avatar: str | None = None,
    locale: str | None = None,
    email: str | None = None,
) -> Any:
    """Change the given fields and publish `user.updated`."""
    if email is not None:
        email = checked_email(email)
    if name is not None:
        name = _checked_name(name)
    before = await users.lock(tx, user_id)
    if before is None:
        raise NotFound(f"there is no user {user_id}")
    try:
        row = await users.update(tx, user_id, name=name, avatar=avatar, locale=locale, email=email)
    except asyncpg.UniqueViolationError as error:
        raise LearningError("another user has this email address: use a different one") from error
    fields = {"email": "userEmail", "name": "userName", "avatar": "avatar", "locale": "locale"}
    changed = [shown for column, shown in fields.items() if row[column] != before[column]]
    if changed:
        await tx.publish("user.updated", _payload(row) | {"updatedAt": row["updated_at"], "changedFields": changed})
    return row


def _payload(row: Any) -> dict[str, Any]:
    return {"userId": row["id"], "userEmail": row["email"], "userName": row["name"]}


def checked_email(email: str) -> str:
    email = email.strip()
    if len(email) > 320 or not EMAIL.fullmatch(email):
        raise InvalidRequest(f"email {email[:80]!r} is not an email address")
    return email


def _checked_name(name: str) -> str:
    name = " ".join(name.split())
    if len(name) > MAX_NAME:
        raise InvalidRequest(f"name has {len(name)} characters: at most {MAX_NAME} are allowed")
    return name
