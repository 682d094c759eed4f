"""Mails to students. An erased student gets none: the row keeps a placeholder instead of an address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.messages import Recipient, Sending, preference_link, save_recipient
from onceward_apps.learning import schools
from onceward_apps.learning.store import users

CONFIRMATIONS = frozenset({"student-sign-in", "enrollment-confirm"})
"""The first mail to an address that a stranger entered in a form. Who follows its link confirms the address."""


async def mail(
    tx: Tx, template: str, student: Any, *, key: str, data: Mapping[str, Any], expires_at: datetime | None = None
) -> None:
    """Queue a mail to a student, unless the student was erased.

    `student` is a user, or a row with the columns user_id, email, locale and erased_at. After `expires_at` the mail is
    of no use and is not sent.
    """
    await mail_many(tx, template, [(student, key, data)], expires_at=expires_at)


async def mail_many(
    tx: Tx,
    template: str,
    mails: Iterable[tuple[Any, str, Mapping[str, Any]]],
    *,
    expires_at: datetime | None = None,
) -> int:
    """Queue mails to students (student, key, data), and return their number.

    Who was erased gets none, and who has not confirmed the address only `CONFIRMATIONS`.
    """
    chosen = [(student, key, data) for student, key, data in mails if student["erased_at"] is None]
    if chosen and template not in CONFIRMATIONS:
        silent = await users.unconfirmed(tx, [_user_id(student) for student, _, _ in chosen])
        chosen = [each for each in chosen if _user_id(each[0]) not in silent]
    if not chosen:
        return 0
    school = await schools.school_of(tx)
    sendings = [
        Sending(to=_recipient(student), key=key, data=await schools.in_mail(tx, data, school), expires_at=expires_at)
        for student, key, data in chosen
    ]
    await tx.send_many(template, sendings)
    return len(sendings)


async def preferences_url(tx: Tx, student: Any, public_url: str) -> str:
    """Return a link to the page on which the student chooses what to get, single mails or a digest."""
    person = _recipient(student)
    if student["erased_at"] is None:
        await save_recipient(tx, Recipient(ref=person["id"], email=person["email"], locale=person["locale"]))
    return await preference_link(tx, person["id"], public_url=public_url)


def _user_id(student: Any) -> UUID:
    return student.get("user_id") or student["id"]


def _recipient(student: Any) -> dict[str, Any]:
    """Return the address, under the id of the user: opt-outs of the user hold for every mail."""
    return {"id": str(_user_id(student)), "email": student["email"], "locale": student["locale"]}
