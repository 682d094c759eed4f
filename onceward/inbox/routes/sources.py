"""HTTP routes for sources, the senders of webhooks. No route ever returns a secret."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from onceward.context import Context
from onceward.db import Database
from onceward.inbox import Inbox, source_limits, sources
from onceward.inbox.source import WITHOUT_APP, Mode
from onceward.settings import Settings
from onceward.trust import Identity, transaction_for
from onceward.web.api import context_of, database_of, part_of, settings_of
from onceward.web.auth import require
from onceward.web.exposure import ANYTHING, exposed
from onceward.web.fields import Json, Text, example
from onceward.web.problems import Problem, invalid_request
from onceward.webhooks.provider import ConfigError

Db = Annotated[Database, Depends(database_of)]
TheContext = Annotated[Context, Depends(context_of)]
TheInbox = Annotated[Inbox, Depends(part_of(Inbox))]
TheSettings = Annotated[Settings, Depends(settings_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Operator = Annotated[Identity, Depends(require("operator"))]
Owner = Annotated[Identity, Depends(require("owner"))]
RecentOwner = Annotated[Identity, Depends(require("owner", recent=True))]
SecretText = Annotated[Text, Field(min_length=1, max_length=16_384)]
Days = Annotated[int, Field(ge=1, le=36_500)]
RequestsPerS = Annotated[float | None, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
RequestsAtOnce = Annotated[int | None, Field(ge=1, le=1_000_000)]
MONTH_S = 30 * 86_400


class SourceIn(BaseModel):
    """A source to add. `provider` defaults to the name. The provider's page lists the options."""

    model_config = {
        "extra": "forbid",
        "hide_input_in_errors": True,
        **example(name="payments-stripe", provider="stripe", secrets=["whsec_..."], mode="ack"),
    }

    name: Text = Field(max_length=63)
    provider: Text | None = Field(None, max_length=63)
    secrets: list[SecretText] = Field(default_factory=list[str], max_length=sources.MOST_SECRETS)
    mode: Mode = "ack"
    options: Json = Field(default_factory=dict)
    public_url: Text | None = Field(None, max_length=2000)
    tolerance_s: int | None = Field(None, ge=1, le=86_400)
    ordering: bool = False
    rate_per_s: float | None = Field(None, gt=0, le=1_000_000, allow_inf_nan=False)
    requests_per_s: RequestsPerS = None
    requests_at_once: RequestsAtOnce = None
    max_body_bytes: int = Field(1 << 20, ge=1024, le=32 << 20)
    retention_days: Days | None = None
    app: Text | None = Field(None, max_length=63)


class Assignment(BaseModel):
    """The app whose handlers get the events of a source; null: the only app that handles them."""

    model_config = {"extra": "forbid", **example(app="learning")}

    app: Text | None = Field(max_length=63)


class Limits(BaseModel):
    """How many requests each process accepts, per second and at the same time; null: no limit. Above a limit: 429."""

    model_config = {"extra": "forbid", **example(requests_per_s=200, requests_at_once=50)}

    requests_per_s: RequestsPerS
    requests_at_once: RequestsAtOnce


class SourceSecret(BaseModel):
    """The new secret, and how long the older secrets stay valid."""

    model_config = {
        "extra": "forbid",
        "hide_input_in_errors": True,
        **example(secret="whsec_...", overlap_s=86_400),
    }

    secret: SecretText
    overlap_s: float = Field(86_400, ge=0, le=MONTH_S, allow_inf_nan=False)


class Rotated(BaseModel):
    """How many secrets are valid now, including the new one."""

    name: str
    live_secrets: int


@dataclass(frozen=True, slots=True)
class SourceShown(sources.Listed):
    """A source without its secrets and options; `url` is what to enter at the sender."""

    url: str


@dataclass(frozen=True, slots=True)
class SourceWithRejected(SourceShown):
    """A source, and how many of its requests were rejected in the last 24 hours, by reason."""

    rejected: list[source_limits.RejectedRequests]


router = APIRouter(prefix="/api/v1/sources", tags=["inbox: sources"])


@router.get("")
async def listed(db: Db, settings: TheSettings, identity: Viewer) -> list[SourceShown]:
    """List sources by name."""
    async with transaction_for(db, identity) as tx:
        rows = await sources.list_sources(tx, organization=identity.organization)
    return [_shown(each, settings) for each in rows]


@router.get("/{source}")
async def one(db: Db, settings: TheSettings, identity: Viewer, source: Text) -> SourceWithRejected:
    """Show a source by name or id, with its rejected requests of the last 24 hours."""
    async with transaction_for(db, identity) as tx:
        row = await sources.find(tx, source[:100], organization=identity.organization)
        rejected = await source_limits.rejected(tx, row.name)
    return SourceWithRejected(**asdict(_shown(row, settings)), rejected=rejected)


@router.post("", status_code=201)
@exposed("nothing")
async def add(
    db: Db, inbox: TheInbox, context: TheContext, settings: TheSettings, identity: RecentOwner, new: SourceIn
) -> SourceShown:
    """Add a source of the organization. An administrator who acts for none adds a source of the platform."""
    requested = sources.NewSource(
        **new.model_dump(exclude={"provider", "secrets", "public_url"}),
        provider=new.provider or new.name,
        secrets=tuple(new.secrets),
        public_url=new.public_url or settings.public_url,
        organization=identity.organization,
    )
    sources.require_name(new.name, identity, inbox.catalog.handled_names)
    try:
        if new.app is None and new.mode not in WITHOUT_APP:
            inbox.catalog.require_one_app(new.name, requested.provider)
        async with db.transaction(role="engine") as tx:
            added = await sources.add(tx, context.box, requested, actor=identity)
    except ConfigError as error:
        raise _problem(error) from None
    await inbox.catalog.refresh()
    return _shown(added, settings)


@router.post("/{source}/secret")
@exposed("nothing")
async def rotate(
    db: Db, inbox: TheInbox, context: TheContext, identity: RecentOwner, source: Text, rotation: SourceSecret
) -> Rotated:
    """Add a secret. This node accepts it before the answer is sent, every other node within moments."""
    overlap = timedelta(seconds=rotation.overlap_s)
    try:
        async with db.transaction(role="engine") as tx:
            row = await sources.find(tx, source[:100], organization=identity.organization)
            sources.require_name(row.name, identity, inbox.catalog.handled_names)
            own = str(row.webhook_id)
            live = await sources.rotate(tx, context.box, own, rotation.secret, overlap=overlap, actor=identity)
    except ConfigError as error:
        raise _problem(error) from None
    await inbox.catalog.refresh()
    return Rotated(name=row.name, live_secrets=len(live))


@router.put("/{source}/app")
@exposed(*ANYTHING)
async def assign(
    db: Db, inbox: TheInbox, settings: TheSettings, identity: Owner, source: Text, to: Assignment
) -> SourceShown:
    """Let the handlers of one app get the events of this source, and the waiting ones without a handler."""
    try:
        async with db.transaction(role="engine") as tx:
            row = await sources.find(tx, source[:100], organization=identity.organization)
            sources.require_name(row.name, identity, inbox.catalog.handled_names)
            if to.app is None and row.mode not in WITHOUT_APP:
                inbox.catalog.require_one_app(row.name, row.provider)
            assigned = await sources.assign(tx, str(row.webhook_id), to.app, actor=identity)
    except ConfigError as error:
        raise _problem(error) from None
    await inbox.catalog.refresh()
    return _shown(assigned, settings)


@router.put("/{source}/limits")
@exposed("nothing")
async def limit(
    db: Db, inbox: TheInbox, settings: TheSettings, identity: Owner, source: Text, to: Limits
) -> SourceShown:
    """Set how many requests of the source each process accepts. Further ones are answered 429 and counted."""
    try:
        async with db.transaction(role="engine") as tx:
            row = await sources.find(tx, source[:100], organization=identity.organization)
            sources.require_name(row.name, identity, inbox.catalog.handled_names)
            limited = await source_limits.limit(
                tx,
                str(row.webhook_id),
                requests_per_s=to.requests_per_s,
                requests_at_once=to.requests_at_once,
                actor=identity,
            )
    except ConfigError as error:
        raise _problem(error) from None
    await inbox.catalog.refresh()
    return _shown(limited, settings)


@router.post("/{source}/pause")
@exposed("nothing")
async def pause(db: Db, inbox: TheInbox, settings: TheSettings, identity: Operator, source: Text) -> SourceShown:
    """Keep receiving, but park waiting and new events instead of handling them. A repeated call changes nothing."""
    async with db.transaction(role="engine") as tx:
        row = await sources.find(tx, source[:100], organization=identity.organization)
        sources.require_name(row.name, identity, inbox.catalog.handled_names)
        paused = await sources.pause(tx, str(row.webhook_id), actor=identity)
    await inbox.catalog.refresh()
    return _shown(paused, settings)


@router.post("/{source}/resume")
@exposed(*ANYTHING)
async def resume(db: Db, inbox: TheInbox, settings: TheSettings, identity: Operator, source: Text) -> SourceShown:
    """Handle the events of the source again, in the order of their arrival."""
    async with db.transaction(role="engine") as tx:
        row = await sources.find(tx, source[:100], organization=identity.organization)
        sources.require_name(row.name, identity, inbox.catalog.handled_names)
        resumed = await sources.resume(tx, str(row.webhook_id), actor=identity)
    await inbox.catalog.refresh()
    return _shown(resumed, settings)


@router.delete("/{source}", status_code=204)
@exposed("nothing")
async def delete(db: Db, inbox: TheInbox, identity: Owner, source: Text) -> None:
    """Delete a source and its secrets. Its events stay, and waiting ones are handled."""
    try:
        async with db.transaction(role="engine") as tx:
            row = await sources.find(tx, source[:100], organization=identity.organization)
            sources.require_name(row.name, identity, inbox.catalog.handled_names)
            await sources.delete(tx, str(row.webhook_id), actor=identity)
    except ConfigError as error:
        raise Problem(409, str(error), title="Not deleted") from None
    await inbox.catalog.refresh()


def _shown(source: sources.Listed, settings: Settings) -> SourceShown:
    return SourceShown(**asdict(source), url=f"{source.public_url or settings.url}/webhooks/{source.name}")


def _problem(error: ConfigError) -> Problem:
    field = f"body.{error.field}"
    if isinstance(error, sources.SourceExists):
        return Problem(409, str(error), title="Name is taken", errors=[{"field": field, "reason": str(error)}])
    return invalid_request([(field, str(error))], detail=str(error))
