"""The chat of a cohort. Students with an ACTIVE enrolment write while it is IN_PROGRESS; the school moderates."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.learning.errors import InvalidRequest, LearningError, NotFound
from onceward_apps.learning.store import chat as rows
from onceward_apps.learning.store import cohorts

MAX_MESSAGE = 4000
MAX_EMOJI = 16
NEWEST = 50
MAX_NEWEST = 200
MAX_EMOJIS_OF_MESSAGE = 12
"""Different emoji under one message. Who reacts counts for nothing in the size of a message: only numbers are sent."""


class NotAllowed(LearningError):
    """The person may not write in this chat."""

    status = 403
    code = "not_allowed"


async def post(
    tx: Tx, cohort_id: UUID, user_id: UUID, message: str, *, client_key: str | None = None
) -> dict[str, Any]:
    """Write a message. The same `client_key` again returns the first message and writes nothing."""
    await _require_writer(tx, cohort_id, user_id)
    row = await rows.add(tx, cohort_id, user_id, _checked(message), client_key)
    await rows.mark_read(tx, cohort_id, user_id, row["id"])
    return {"messageId": row["id"], "cohortId": str(cohort_id), "sentAt": row["sent_at"]}


async def edit(tx: Tx, cohort_id: UUID, message_id: int, user_id: UUID, message: str) -> None:
    """Change one's own message."""
    await _require_writer(tx, cohort_id, user_id)
    await _own(tx, cohort_id, message_id, user_id)
    await rows.edit(tx, message_id, _checked(message))


async def delete(tx: Tx, cohort_id: UUID, message_id: int, user_id: UUID) -> None:
    """Remove one's own message. Its place in the chat stays, without the text."""
    await _require_writer(tx, cohort_id, user_id)
    await _own(tx, cohort_id, message_id, user_id)
    await rows.delete(tx, message_id)


async def post_for_school(tx: Tx, cohort_id: UUID, author: str, message: str, *, actor: str) -> int:
    """Write as somebody of the school, in a cohort that is confirmed or runs. Returns the id of the message."""
    cohort = await cohorts.find(tx, cohort_id)
    if cohort is None:
        raise NotFound(f"there is no cohort {cohort_id}")
    if cohort["status"] not in ("CONFIRMED", "IN_PROGRESS"):
        raise NotAllowed("the chat is open while the cohort is in progress")
    author = " ".join(author.split())
    if not 1 <= len(author) <= 200:
        raise InvalidRequest(f"author has {len(author)} characters: 1 to 200 are allowed")
    await cohorts.lock(tx, cohort_id)
    if await rows.was_written_now(tx, cohort_id, author, _checked(message)):
        raise LearningError("this was written within the last minute: write something else")
    message_id = await rows.add_for_school(tx, cohort_id, author, _checked(message))
    ids: dict[str, Any] = {"entity_type": "ChatMessage", "entity_id": str(message_id)}
    await tx.audit("chat_written", **ids, actor=actor)
    return message_id


async def moderate(tx: Tx, message_id: int, *, reason: str, actor: str) -> None:
    """Remove anybody's message for the school. Its place in the chat stays, and says who removed it."""
    row = await rows.message(tx, message_id)
    if row is None or row["deleted_at"] is not None:
        raise NotFound(f"there is no message {message_id}")
    await rows.delete(tx, message_id, by_school=True)
    ids: dict[str, Any] = {"entity_type": "ChatMessage", "entity_id": str(message_id)}
    await tx.audit("chat_moderated", **ids, reason=reason, actor=actor)


async def react(tx: Tx, cohort_id: UUID, message_id: int, user_id: UUID, emoji: str, *, on: bool) -> None:
    """Add or remove a reaction."""
    await _require_writer(tx, cohort_id, user_id)
    await _find(tx, cohort_id, message_id)  # locked: two students may both see room for one more emoji
    emoji = emoji.strip()
    if not 1 <= len(emoji) <= MAX_EMOJI or any(letter in "<>&\"'" or letter.isalnum() for letter in emoji):
        raise InvalidRequest(f"emoji {emoji[:MAX_EMOJI]!r} must be one emoji")
    if on:
        others = await rows.other_emojis(tx, message_id, emoji)
        if others >= MAX_EMOJIS_OF_MESSAGE:
            raise LearningError(f"the message has {others} different emoji already: use one of them")
        await rows.react(tx, cohort_id, message_id, user_id, emoji)
    else:
        await rows.unreact(tx, message_id, user_id, emoji)


async def mark_read(tx: Tx, cohort_id: UUID, user_id: UUID, message_id: int) -> int:
    """Remember how far a student has read. Returns how many messages are unread after that."""
    if await rows.writer(tx, cohort_id, user_id) is None:
        raise NotAllowed("you are not enrolled in this cohort")
    await rows.mark_read(tx, cohort_id, user_id, message_id)
    return await rows.unread(tx, cohort_id, user_id)


async def _require_writer(tx: Tx, cohort_id: UUID, user_id: UUID) -> None:
    row = await rows.writer(tx, cohort_id, user_id)
    if row is None or not row["has_access"]:
        raise NotAllowed("you are not enrolled in this cohort, or your access has ended")
    if row["cohort_status"] != "IN_PROGRESS":
        raise NotAllowed("the chat is open while the cohort is in progress")


async def _find(tx: Tx, cohort_id: UUID, message_id: int) -> Any:
    row = await rows.message(tx, message_id)
    if row is None or row["cohort_id"] != cohort_id or row["deleted_at"] is not None:
        raise NotFound(f"there is no message {message_id} in this chat")
    return row


async def _own(tx: Tx, cohort_id: UUID, message_id: int, user_id: UUID) -> None:
    if (await _find(tx, cohort_id, message_id))["user_id"] != user_id:
        raise NotAllowed("you can only change your own messages")


def _checked(message: str) -> str:
    text = message.strip()
    if not 1 <= len(text) <= MAX_MESSAGE:
        raise InvalidRequest(f"message has {len(text)} characters: 1 to {MAX_MESSAGE} are allowed")
    if "\x00" in text:
        raise InvalidRequest("message contains a NUL character, which cannot be stored")
    return text
