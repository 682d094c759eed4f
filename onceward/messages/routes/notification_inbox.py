"""HTTP routes of the dashboard channel: a caller lists the own notifications, counts unread ones, marks them as
read."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from onceward.db import Database
from onceward.messages import notification_inbox
from onceward.messages.notification_inbox import InboxMessage
from onceward.trust import Identity, transaction_for
from onceward.web.api import database_of
from onceward.web.auth import require
from onceward.web.exposure import exposed
from onceward.web.fields import AtMost, Number, example
from onceward.web.problems import invalid_request

Db = Annotated[Database, Depends(database_of)]
User = Annotated[Identity, Depends(require("user"))]


class Unread(BaseModel):
    """The number of unread notifications, 1000 at most."""

    unread: int


class ReadMarks(BaseModel):
    """Which notifications to mark as read: some by `ids`, or all up to the id `up_to`, which the caller has seen."""

    model_config = {"extra": "forbid", **example(up_to=4711)}

    ids: Annotated[list[Number], AtMost(1000)] = Field(default_factory=list[int])
    up_to: Number | None = None


router = APIRouter(prefix="/api/v1/inbox", tags=["inbox of notifications"])
"""The routes under `/api/v1/inbox`."""


@router.get("")
async def list_notifications(
    db: Db,
    identity: User,
    unread: bool = False,
    before: Number | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> list[InboxMessage]:
    """List the caller's notifications, newest first. `before` is the last id of the previous page."""
    async with transaction_for(db, identity) as tx:
        recipients = notification_inbox.recipients_of(identity)
        return await notification_inbox.list_inbox(
            tx, recipients, organization=identity.organization, before=before, unread=unread, limit=limit
        )


@router.get("/unread")
async def count_unread_notifications(db: Db, identity: User) -> Unread:
    """Count the caller's unread notifications."""
    async with transaction_for(db, identity) as tx:
        recipients = notification_inbox.recipients_of(identity)
        return Unread(unread=await notification_inbox.count_unread(tx, recipients, organization=identity.organization))


@router.post("/read")
@exposed("nothing")
async def mark_notifications_as_read(db: Db, identity: User, marks: ReadMarks) -> Unread:
    """Mark notifications as read, and return how many are still unread."""
    if not marks.ids and marks.up_to is None:
        raise invalid_request([("body.ids", "give ids or up_to")])
    recipients = notification_inbox.recipients_of(identity)
    async with transaction_for(db, identity) as tx:
        await notification_inbox.mark_read(tx, recipients, ids=marks.ids, up_to=marks.up_to)
        return Unread(unread=await notification_inbox.count_unread(tx, recipients, organization=identity.organization))
