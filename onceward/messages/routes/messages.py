"""HTTP routes of messages: send, list, show, cancel, resolve an unknown outcome. Lists show no addresses and no
texts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field, StringConstraints

from onceward.db import Database
from onceward.engine import Engine
from onceward.messages import ChannelName, UnknownTemplate, operations
from onceward.messages.unknown_outcomes import UnknownFilter, resolve, resolve_all, unknown_messages
from onceward.trust import Identity, transaction_for
from onceward.web.api import database_of, engine_of
from onceward.web.auth import require
from onceward.web.exposure import exposed
from onceward.web.fields import AtMost, Json, Moment, Number, Text, Why, example
from onceward.web.paging import link_next
from onceward.web.problems import Problem, invalid_request
from onceward.windows import MOST_EXAMINED

Db = Annotated[Database, Depends(database_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Operator = Annotated[Identity, Depends(require("operator"))]
Sender = Annotated[Identity, Depends(require("operator", permission="message"))]
Eng = Annotated[Engine, Depends(engine_of)]
Admin = Annotated[Identity, Depends(require("admin"))]
Short = Annotated[str, StringConstraints(max_length=300)]
Status = Literal["pending", "processing", "sent", "success", "failed", "dead_letter", "cancelled", "expired", "unknown"]


class MessageRow(BaseModel):
    id: int
    key: str
    channel: str
    template: str
    status: str = Field(examples=["pending", "sent", "failed", "cancelled", "expired", "unknown"])
    reason: str | None
    attempts: int
    scheduled_for: datetime | None
    sent_at: datetime | None
    created_at: datetime


class NewMessage(BaseModel):
    """A message to send once, after the answer. `to` is an address or the ref of a recipient."""

    model_config = {
        "extra": "forbid",
        **example(
            template="order-confirmation", to="ada@example.com", key="order:7:confirmation", data={"number": "A-7"}
        ),
    }

    template: str = Field(min_length=1, max_length=200)
    to: Annotated[Text, Field(min_length=1, max_length=500)]
    key: Annotated[Text, Field(min_length=1, max_length=500)] = Field(
        description="Used for one message only, ever: the same key again sends nothing."
    )
    data: Json = {}
    channel: ChannelName | None = None
    locale: Annotated[Text, Field(max_length=35)] | None = None
    not_before: Moment | None = None
    expires_at: Moment | None = None


class QueuedMessage(BaseModel):
    """`duplicate`: a message with the same key existed already."""

    id: int
    duplicate: bool


class MessageVerdict(BaseModel):
    """`sent`: the message arrived; `resend`: it did not arrive, send it again."""

    model_config = example(verdict="sent", reason="the log of the provider shows the message")

    verdict: Literal["sent", "resend"]
    reason: str = Field(min_length=1, max_length=1000)


class UnknownSelection(BaseModel):
    """Which messages with an unknown outcome to resolve. At least one filter is required; `dry_run` changes nothing.

    `since` and `until` compare the time when the send began.
    """

    model_config = {
        "extra": "forbid",
        **example(verdict="resend", channel="email", since="2031-06-21T00:00:00Z", reason="not in the relay's log"),
    }

    verdict: Literal["sent", "resend"]
    ids: Annotated[list[Number] | None, AtMost(1000)] = None
    channel: ChannelName | None = None
    template: Short | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: int = Field(200, ge=1, le=1000)
    dry_run: bool = False
    reason: str = Field("", max_length=1000)


class ResolvedAnswer(BaseModel):
    """The ids of the resolved messages (in a dry run: of those that would be resolved), and of those resolved
    meanwhile."""

    verdict: str
    done: list[int]
    skipped: list[int]
    dry_run: bool


class MessageDone(BaseModel):
    id: int
    outcome: str = Field(examples=["cancelled", "sent", "resend"])


router = APIRouter(prefix="/api/v1/messages", tags=["messages"])
"""The routes under `/api/v1/messages`."""


@router.get("")
async def list_messages(
    db: Db,
    request: Request,
    response: Response,
    identity: Viewer,
    status: Status | None = None,
    channel: ChannelName | None = None,
    template: Short | None = None,
    before: Number | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> list[MessageRow]:
    """List messages, newest first. `before` is the last id of the previous page.

    A request examines about 8,000 messages at most. If there may be more matches, the header `Link` has the URL of the
    next page with `rel="next"`; a page can have fewer messages than `limit`, or none, and still have a next page.
    """
    async with transaction_for(db, identity) as tx:
        found = await operations.list_messages(
            tx,
            status=status,
            channel=channel,
            template=template,
            organization=identity.organization,
            before=before,
            limit=limit,
            most=MOST_EXAMINED,
        )
    link_next(request, response, before=found.next)
    return [MessageRow(**row) for row in found.rows]


@router.post(
    "",
    status_code=201,
    responses={200: {"model": QueuedMessage, "description": "The key was used before: that message."}},
)
@exposed("mail")
async def send_message(engine: Eng, identity: Sender, new: NewMessage, response: Response) -> QueuedMessage:
    """Queue a message. With a key that was used before, that message is returned with status 200."""
    try:
        async with engine.transaction(organization=identity.organization) as tx:
            queued = await tx.send(
                new.template,
                to=new.to,
                key=new.key,
                data=new.data,
                channel=new.channel,
                locale=new.locale,
                not_before=new.not_before,
                expires_at=new.expires_at,
            )
    except UnknownTemplate as error:
        raise invalid_request([("body.template", str(error))]) from None
    except ValueError as error:
        raise invalid_request(detail=str(error)) from None
    if queued.duplicate:
        response.status_code = 200
    return QueuedMessage(id=queued.id, duplicate=queued.duplicate)


@router.get("/parked")
async def list_parked_accounts(db: Db, _identity: Admin) -> list[dict[str, Any]]:
    """List the accounts and templates that are paused, why, and what to do about those that a service refuses."""
    return await operations.parked(db)


@router.post("/resolve")
@exposed("mail")
async def resolve_messages(db: Db, identity: Operator, body: UnknownSelection) -> ResolvedAnswer:
    """Record the outcome of all messages that match and whose send the service never answered. Shows no addresses."""
    chosen = UnknownFilter(
        ids=body.ids, channel=body.channel, template=body.template, since=body.since, until=body.until
    )
    if chosen.is_empty:
        raise invalid_request([("body.ids", "give at least one filter: ids, channel, template, since or until")])
    chosen = replace(chosen, organization=identity.organization)
    if body.dry_run:
        pages = [page async for page in unknown_messages(db, chosen, limit=body.limit)]
        found = [message["id"] for page in pages for message in page]
        return ResolvedAnswer(verdict=body.verdict, done=found, skipped=[], dry_run=True)
    if not body.reason.strip():
        raise invalid_request([("body.reason", "give a reason for the audit log; only a dry run needs none")])
    resolved = await resolve_all(db, chosen, body.verdict, by=identity.actor, reason=body.reason, limit=body.limit)
    return ResolvedAnswer(verdict=body.verdict, done=resolved.done, skipped=resolved.skipped, dry_run=False)


@router.get("/{id}")
async def show_message(db: Db, identity: Viewer, id: Number) -> dict[str, Any]:
    """Show one message with its data and all its attempts, without its address."""
    return await _find(db, identity, id)


@router.post("/{id}/cancel")
@exposed("nothing")
async def cancel_message(db: Db, identity: Operator, id: Number, why: Why) -> MessageDone:
    """Cancel a message that has not been sent."""
    message = await _find(db, identity, id)
    async with db.transaction(role="engine") as tx:
        key, organization = message["key"], message["organization_id"]
        cancelled = await operations.cancel_by_key(tx, key, organization=organization, by=identity, reason=why.reason)
    if not cancelled:
        raise Problem(409, f"message {id} is not waiting to be sent: its state is {message['status']}")
    return MessageDone(id=id, outcome="cancelled")


@router.post("/{id}/resolve")
@exposed("mail")
async def resolve_message(db: Db, identity: Operator, id: Number, body: MessageVerdict) -> MessageDone:
    """Record the outcome of a message whose send the service never answered."""
    await _find(db, identity, id)
    async with db.transaction(role="engine") as tx:
        resolved = await resolve(tx, id, body.verdict, by=identity.actor, reason=body.reason)
    if not resolved:
        raise Problem(409, f"the outcome of message {id} is not unknown")
    return MessageDone(id=id, outcome=body.verdict)


async def _find(db: Database, identity: Identity, id: int) -> dict[str, Any]:
    async with transaction_for(db, identity) as tx:
        message = await operations.show_message(tx, id)
    if message is None:
        raise Problem(404, f"there is no message {id}")
    return message
