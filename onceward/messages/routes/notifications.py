"""HTTP routes of messages: notifications, unsubscribing, previews of templates."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from onceward.context import Context
from onceward.db import Database
from onceward.engine import Engine
from onceward.look.public import plain_page
from onceward.messages import (
    ChannelName,
    InvalidNotification,
    Notification,
    UnknownTemplate,
    notify,
    render,
    unsubscribe_by_token,
)
from onceward.messages.notifications import show, slack_of
from onceward.messages.settings import MessagesSettings
from onceward.settings import Settings
from onceward.trust import Identity, transaction_for
from onceward.web.api import context_of, database_of, engine_of, settings_of
from onceward.web.auth import require
from onceward.web.exposure import exposed
from onceward.web.fields import AtMost, Number, example
from onceward.web.problems import Problem, invalid_request
from onceward.work import PayloadInvalid

TheContext = Annotated[Context, Depends(context_of)]
Db = Annotated[Database, Depends(database_of)]
TheEngine = Annotated[Engine, Depends(engine_of)]
TheSettings = Annotated[Settings, Depends(settings_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Sender = Annotated[Identity, Depends(require("operator", permission="message", own_key=True))]
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]


class NotificationMessage(BaseModel):
    title: str = Field("", max_length=500)
    body: str = Field("", max_length=100_000)
    metadata: dict[str, Any] = {}


class NewNotification(BaseModel):
    """A notification over several channels. `severity` accepts any of its names: info, warning, HIGH, critical, ..."""

    model_config = example(
        type="cohort.started",
        severity="info",
        recipients=["ada@example.com"],
        channels=["email", "dashboard"],
        message={"title": "The cohort has started", "body": "Lesson 1 is open."},
    )

    type: str = Field(min_length=1, max_length=200)
    severity: str = "info"
    recipients: Annotated[list[str], AtMost(10_000)]
    channels: Annotated[list[ChannelName], AtMost(20)] = Field(min_length=1)
    message: NotificationMessage = Field(default_factory=lambda: NotificationMessage.model_validate({}))
    template: str | None = None


class NotificationAccepted(BaseModel):
    id: int
    duplicate: bool


router = APIRouter(tags=["messages"])


@router.post("/api/v1/notifications", status_code=202)
@exposed("mail")
async def create_notification(
    context: TheContext,
    body: NewNotification,
    engine: TheEngine,
    settings: TheSettings,
    identity: Sender,
    key: IdempotencyKey = None,
) -> NotificationAccepted:
    """Send a notification over several channels. Failed messages are retried once, after 5 minutes."""
    from onceward.messages.service import slack_channels

    try:
        what = Notification(
            type=body.type,
            severity=body.severity,
            recipients=body.recipients,
            channels=body.channels,
            title=body.message.title,
            body=body.message.body,
            metadata=body.message.metadata,
            template=body.template,
            key=key,
        )
        # What an organization says goes to its own workspace: it may not speak to that of the installation.
        slack = slack_channels(settings)
        if identity.organization is not None and "slack" in what.channels:
            slack = await slack_of(context.app.services, identity.organization)
        async with engine.transaction(organization=identity.organization) as tx:
            notified = await notify(tx, engine.templates, what, slack=slack, waker=engine.waker)
    except (InvalidNotification, UnknownTemplate, ValueError) as error:
        raise invalid_request(detail=str(error)) from None
    return NotificationAccepted(id=notified.id, duplicate=notified.duplicate)


@router.get("/api/v1/notifications/{id}")
async def read_notification(id: Number, db: Db, identity: Viewer) -> dict[str, Any]:
    """Return the counts of a notification and the state of every message."""
    async with transaction_for(db, identity) as tx:
        notification = await show(tx, id)
    if notification is None:
        raise Problem(404, f"there is no notification {id}")
    return notification


@router.get("/unsubscribe/{token}", response_class=HTMLResponse, include_in_schema=False)
@exposed(credential="link in the message")
async def ask_to_unsubscribe(token: UUID, settings: TheSettings) -> HTMLResponse:
    """Show a page with a button. Mail scanners follow links, so a GET must not unsubscribe anybody."""
    return _page(
        "Unsubscribe",
        "<p>Do you want to stop receiving messages of this kind?</p>"
        '<form method="post"><button type="submit" class="main">Unsubscribe</button></form>',
        settings.of(MessagesSettings).brand,
    )


@router.post("/unsubscribe/{token}", response_class=HTMLResponse, include_in_schema=False)
@exposed("nothing", credential="link in the message")
async def unsubscribe(token: UUID, db: Db, settings: TheSettings, request: Request) -> HTMLResponse:
    """Unsubscribe with one click as in RFC 8058, or from the page."""
    body = (await request.body())[:200]
    source = "one-click" if b"List-Unsubscribe=One-Click" in body else "page"
    if await unsubscribe_by_token(db, token, source=source) is None:
        raise Problem(404, "this unsubscribe link is unknown")
    brand = settings.of(MessagesSettings).brand
    return _page("Unsubscribed", "<p>You will no longer receive messages of this kind.</p>", brand)


@router.get("/templates/{name}", response_class=HTMLResponse, include_in_schema=False)
async def preview(
    name: str, engine: TheEngine, settings: TheSettings, _identity: Viewer, locale: str | None = None
) -> HTMLResponse:
    """Show the mail of a template, rendered with its sample data."""
    from onceward.messages.service import sending_options

    try:
        template = engine.templates.get(name)
        options = sending_options(settings)
        rendered = render(
            template, template.sample, locale=locale, default_locale=options.default_locale, brand=options.brand
        )
    except UnknownTemplate as error:
        raise Problem(404, str(error)) from None
    except PayloadInvalid as error:
        raise Problem(422, f"{error}; add the value to sample.json of the template") from None
    return HTMLResponse(
        rendered.html,
        headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src https:"},
    )


def _page(title: str, content: str, brand: str) -> HTMLResponse:
    return HTMLResponse(
        plain_page(title, content, name=brand),
        headers={
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
            "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'",
        },
    )
