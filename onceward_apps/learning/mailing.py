"""Mails to students. An erased student gets none: the row keeps a placeholder instead of an address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onceward import Tx
from onceward.messages import Sending


async def mail(tx: Tx, template: str, student: Any, *, key: str, data: Mapping[str, Any]) -> None:
    """Queue a mail to a student, unless the student was erased.

    `student` is a user, or a row with the columns user_id, email, locale and erased_at.
    """
    await mail_many(tx, template, [(student, key, data)])


async def mail_many(tx: Tx, template: str, mails: Iterable[tuple[Any, str, Mapping[str, Any]]]) -> int:
    """Queue mails to students (student, key, data), except to those who were erased. Return the number of mails."""
    sendings = [
        Sending(to=_recipient(student), key=key, data=data)
        for student, key, data in mails
        if student["erased_at"] is None
    ]
    if sendings:
        await tx.send_many(template, sendings)
    return len(sendings)


def _recipient(student: Any) -> dict[str, Any]:
    """Return the address, under the id of the user: opt-outs of the user hold for every mail."""
    user_id = student.get("user_id") or student["id"]
    return {"id": str(user_id), "email": student["email"], "locale": student["locale"]}
