"""HTTP routes of outbound webhooks: event types, endpoints, deliveries, resends, and publishing without an app."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, Field, JsonValue

from onceward.db import Database
from onceward.engine import Engine
from onceward.outbox import (
    Endpoint,
    EndpointFields,
    EventType,
    Invalid,
    KeyReused,
    Outbox,
    portal,
    reading,
    resends,
)
from onceward.outbox.catalogue import check_name, known, save
from onceward.trust import Identity, audit
from onceward.web.api import database_of, engine_of, settings_of
from onceward.web.auth import require
from onceward.web.exposure import ANYBODY, exposed
from onceward.web.fields import AtMost, Number, example
from onceward.web.idempotency import withholds
from onceward.web.paging import link_next

Db = Annotated[Database, Depends(database_of)]
Eng = Annotated[Engine, Depends(engine_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Operator = Annotated[Identity, Depends(require("operator"))]
Publisher = Annotated[Identity, Depends(require("operator", permission="publish", own_key=True))]
Replayer = Annotated[Identity, Depends(require("operator", permission="replay"))]
Owner = Annotated[Identity, Depends(require("owner"))]
RecentOwner = Annotated[Identity, Depends(require("owner", recent=True))]
Admin = Annotated[Identity, Depends(require("admin"))]
Limit = Annotated[int, Query(ge=1, le=500)]
Types = Annotated[list[str], AtMost(1000)]
Channels = Annotated[list[str], AtMost(20)]


class NewEndpoint(BaseModel):
    """`secret` has 24 to 64 bytes: `whsec_` and base64, or plain text. If omitted, a secret is generated and shown once."""

    model_config = {
        "extra": "forbid",
        **example(url="https://customer.example/webhooks", events=["order.*"], description="accounting"),
    }

    url: str
    events: Types
    secret: str | None = None
    description: str = ""
    channels: Channels | None = None
    headers: Annotated[dict[str, str], AtMost(100)] = Field(default_factory=dict)
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    owner: str | None = None
    max_in_flight: int | None = None
    rate_per_s: float | None = None
    ordered: bool = False
    retry_waits_s: Annotated[list[float] | None, AtMost(50)] = None
    ed25519: bool = False


class ChangedEndpoint(BaseModel):
    """The fields to change. Omitted fields keep their value."""

    model_config = {"extra": "forbid", **example(events=["order.paid", "order.refunded"], max_in_flight=4)}

    url: str | None = None
    events: Types | None = None
    description: str | None = None
    channels: Channels | None = None
    headers: Annotated[dict[str, str] | None, AtMost(100)] = None
    metadata: dict[str, JsonValue] | None = None
    owner: str | None = None
    max_in_flight: int | None = None
    rate_per_s: float | None = None
    ordered: bool | None = None
    retry_waits_s: Annotated[list[float] | None, AtMost(50)] = None
    ed25519: bool | None = None


class MadeEndpoint(BaseModel):
    """The new endpoint with its signing secret, which is never shown again: a repeated request gets null."""

    endpoint: Endpoint
    secret: str | None


class EndpointSecret(BaseModel):
    model_config = example(overlap_s=86_400)

    secret: str | None = None
    overlap_s: float = 86400


class NewType(BaseModel):
    model_config = example(description="An order was paid.", sample={"order_id": "o-1", "amount_cents": 4200})

    description: str = Field("", max_length=1000)
    schema_: dict[str, JsonValue] = Field(default_factory=dict, alias="schema")
    sample: JsonValue = Field(description="Example data. Test events and the documentation for customers show it.")


class TypeOfEvent(BaseModel):
    name: str
    description: str
    schema_: Any = Field(alias="schema")
    sample: Any
    declared_by: str


class Recovery(BaseModel):
    """Resend all undelivered events since a time, also those published while the endpoint was disabled."""

    model_config = example(since="2031-06-21T00:00:00Z", rate_per_s=20)

    since: datetime
    until: datetime | None = None
    rate_per_s: float = resends.DEFAULT_RATE_PER_S


class Replay(BaseModel):
    """Resend all deliveries that match, delivered or not."""

    model_config = example(since="2031-06-21T00:00:00Z", types=["order.paid"], statuses=["dead_letter"])

    since: datetime
    until: datetime | None = None
    endpoint_id: UUID | None = None
    types: Types | None = None
    statuses: Annotated[list[str] | None, AtMost(20)] = None
    rate_per_s: float = resends.DEFAULT_RATE_PER_S


class Test(BaseModel):
    model_config = example(type="order.paid")

    type: str = "endpoint.test"


class NewEvent(BaseModel):
    model_config = example(type="order.paid", data={"order_id": "o-1", "amount_cents": 4200})

    type: str
    data: JsonValue
    channels: Channels = Field(default_factory=list[str])


class MadeEvent(BaseModel):
    id: int
    message_id: str
    deliveries: int
    duplicate: bool


class PortalAccess(BaseModel):
    model_config = example(hours=24, may_act=False)

    hours: float = Field(24, gt=0, le=24 * 30)
    endpoint_ids: Annotated[list[UUID] | None, AtMost(1000)] = None
    may_act: bool = True


def outbound_router(outbox: Outbox) -> APIRouter:
    """Return the routes `/api/v1/event-types`, `/endpoints`, `/deliveries`, `/resends`, `/publish` and `/webhook-keys`."""
    router = APIRouter(prefix="/api/v1", tags=["outbound webhooks"])
    _catalogue(router)
    _endpoints(router, outbox)
    _actions(router, outbox)
    _deliveries(router)
    _resends(router)
    _publish(router)
    return router


def _catalogue(router: APIRouter) -> None:
    @router.get("/event-types")
    async def types(db: Db, _identity: Viewer) -> list[TypeOfEvent]:  # pyright: ignore[reportUnusedFunction]
        async with db.acquire() as conn:
            return [
                TypeOfEvent(
                    name=each.name,
                    description=each.description,
                    schema=each.schema,
                    sample=each.sample,
                    declared_by=each.declared_by,
                )
                for each in await known(conn)
            ]

    @router.put("/event-types/{name}", status_code=204)
    @exposed("nothing")
    async def declare(db: Db, identity: Admin, name: str, new: NewType) -> None:  # pyright: ignore[reportUnusedFunction]
        check_name(name)
        async with db.transaction(role="engine") as tx:
            requested = EventType(name, description=new.description, schema=new.schema_, sample=new.sample)
            await save(tx, [requested])
            await audit.record(tx, "event_type.declared", entity_type="event_type", entity_id=name, actor=identity)


def _endpoints(router: APIRouter, outbox: Outbox) -> None:
    endpoints = outbox.endpoints

    @router.get("/endpoints")
    async def listed(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        response: Response,
        identity: Viewer,
        after: UUID | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
    ) -> list[Endpoint]:
        """List endpoints, oldest first. `after` is the last id of the previous page; `Link` has the next page."""
        page = await endpoints.list(
            identity.organization, all_organizations=_sees_all(identity), after=after, limit=limit
        )
        link_next(request, response, after=page[-1].endpoint_id if len(page) == limit else None)
        return page

    @router.post("/endpoints", status_code=201, dependencies=[withholds("secret")])
    @exposed("nothing")
    async def register(identity: RecentOwner, new: NewEndpoint) -> MadeEndpoint:  # pyright: ignore[reportUnusedFunction]
        created = await endpoints.register(identity.organization, EndpointFields(**new.model_dump()), actor=identity)
        return MadeEndpoint(endpoint=created.endpoint, secret=created.secret)

    @router.get("/endpoints/{endpoint_id}")
    async def one(identity: Viewer, endpoint_id: UUID) -> Endpoint:  # pyright: ignore[reportUnusedFunction]
        return await endpoints.get(identity.organization, endpoint_id)

    @router.patch("/endpoints/{endpoint_id}")
    @exposed("nothing")
    async def change(identity: Owner, endpoint_id: UUID, new: ChangedEndpoint) -> Endpoint:  # pyright: ignore[reportUnusedFunction]
        changes = new.model_dump(exclude_unset=True)
        for name in ("url", "events", "description", "headers", "metadata", "ordered", "ed25519"):
            if name in changes and changes[name] is None:
                raise Invalid(name, "must not be null; omit it to keep its value")
        return await endpoints.change(identity.organization, endpoint_id, changes, actor=identity)

    @router.delete("/endpoints/{endpoint_id}", status_code=204)
    @exposed("nothing")
    async def delete(identity: Owner, endpoint_id: UUID) -> None:  # pyright: ignore[reportUnusedFunction]
        await endpoints.delete(identity.organization, endpoint_id, actor=identity)

    @router.post("/endpoints/{endpoint_id}/secret", dependencies=[withholds("secret")])
    @exposed("nothing")
    async def rotate(identity: RecentOwner, endpoint_id: UUID, requested: EndpointSecret) -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        secret = await endpoints.rotate_secret(
            identity.organization,
            endpoint_id,
            actor=identity,
            secret=requested.secret,
            overlap=timedelta(seconds=requested.overlap_s),
        )
        return {"secret": secret}

    @router.get("/webhook-keys/{organization_id}")
    @exposed(credential=ANYBODY)
    async def public_keys(organization_id: UUID) -> dict[str, list[str]]:  # pyright: ignore[reportUnusedFunction]
        """Return the public keys that verify the `v1a` signatures of this organization. Needs no authentication."""
        return {"keys": await endpoints.public_keys(organization_id)}


def _actions(router: APIRouter, outbox: Outbox) -> None:
    endpoints = outbox.endpoints

    @router.post("/endpoints/{endpoint_id}/disable")
    @exposed("nothing")
    async def disable(identity: Operator, endpoint_id: UUID) -> Endpoint:  # pyright: ignore[reportUnusedFunction]
        await endpoints.disable(identity.organization, endpoint_id, actor=identity)
        return await endpoints.get(identity.organization, endpoint_id)

    @router.post("/endpoints/{endpoint_id}/enable")
    @exposed("call")
    async def enable(identity: Operator, endpoint_id: UUID) -> Endpoint:  # pyright: ignore[reportUnusedFunction]
        await endpoints.enable(identity.organization, endpoint_id, actor=identity)
        return await endpoints.get(identity.organization, endpoint_id)

    @router.post("/endpoints/{endpoint_id}/test", status_code=202)
    @exposed("call")
    async def test(identity: Operator, endpoint_id: UUID, requested: Test) -> MadeEvent:  # pyright: ignore[reportUnusedFunction]
        sent = await outbox.send_test(identity.organization, endpoint_id, actor=identity, type=requested.type)
        return MadeEvent(id=sent.id, message_id=sent.message_id, deliveries=sent.deliveries, duplicate=False)

    @router.post("/endpoints/{endpoint_id}/recover", status_code=202)
    @exposed("call")
    async def recover(db: Db, identity: Replayer, endpoint_id: UUID, requested: Recovery) -> resends.Resend:  # pyright: ignore[reportUnusedFunction]
        return await resends.start(
            db,
            identity.organization,
            verb="recover",
            endpoint_id=endpoint_id,
            since=requested.since,
            until=requested.until,
            rate_per_s=requested.rate_per_s,
            actor=identity,
        )

    @router.post("/endpoints/portal", status_code=201, dependencies=[withholds("url")])
    @exposed("nothing")
    async def access(request: Request, db: Db, identity: RecentOwner, requested: PortalAccess) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        created = await portal.create(
            db,
            identity.organization,
            hours=requested.hours,
            endpoint_ids=requested.endpoint_ids,
            may_act=requested.may_act,
            actor=identity,
        )
        url = f"{settings_of(request).url}/portal?token={created.token}"
        return {"id": created.id, "url": url, "expires_at": created.expires_at}

    @router.get("/portal-tokens")
    async def list_portal_tokens(db: Db, identity: Owner) -> list[portal.PortalToken]:  # pyright: ignore[reportUnusedFunction]
        """List the links to the portal that are valid now, without their tokens."""
        return await portal.list_tokens(db, identity.organization)

    @router.delete("/portal-tokens/{id}", status_code=204)
    @exposed("nothing")
    async def revoke_portal_token(db: Db, identity: Owner, id: UUID) -> None:  # pyright: ignore[reportUnusedFunction]
        """Revoke a link to the portal. It ends with its next request, on every node."""
        await portal.revoke(db, identity.organization, id, actor=identity)


def _deliveries(router: APIRouter) -> None:
    @router.get("/deliveries")
    async def listed(  # pyright: ignore[reportUnusedFunction]
        db: Db,
        identity: Viewer,
        endpoint_id: UUID | None = None,
        status: Literal["pending", "success", "failed", "dead_letter", "cancelled"] | None = None,
        type: str | None = None,
        message_id: str | None = None,
        before: Number | None = None,
        limit: Limit = 50,
    ) -> list[reading.DeliveryRow]:
        return await reading.deliveries(
            db,
            identity.organization,
            all_organizations=_sees_all(identity),
            endpoint_ids=None if endpoint_id is None else [endpoint_id],
            status=status,
            type=type,
            message_id=message_id,
            before=before,
            limit=limit,
        )

    @router.get("/deliveries/{id}")
    async def one(db: Db, identity: Viewer, id: int) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        row, body, attempts = await reading.delivery(
            db, identity.organization, id, all_organizations=_sees_all(identity)
        )
        return {"delivery": row, "body": body, "attempts": attempts}

    @router.post("/deliveries/{id}/resend", status_code=202)
    @exposed("call")
    async def resend(db: Db, engine: Eng, identity: Replayer, id: int) -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        await resends.resend_one(db, identity.organization, id, actor=identity)
        for queue in ("deliveries", "deliveries-retry"):
            engine.waker.wake(queue)
        return {"status": "resent"}

    @router.post("/deliveries/replay", status_code=202)
    @exposed("call")
    async def replay(db: Db, identity: Replayer, requested: Replay) -> resends.Resend:  # pyright: ignore[reportUnusedFunction]
        return await resends.start(db, identity.organization, verb="replay", actor=identity, **requested.model_dump())


def _resends(router: APIRouter) -> None:
    @router.get("/resends")
    async def listed(  # pyright: ignore[reportUnusedFunction]
        db: Db, identity: Viewer, before: Number | None = None, limit: Limit = 50
    ) -> list[resends.Resend]:
        """List resends, newest first. `before` is the last id of the previous page."""
        return await resends.listed(db, identity.organization, before=before, limit=limit)

    @router.get("/resends/{id}")
    async def one(db: Db, identity: Viewer, id: int) -> resends.Resend:  # pyright: ignore[reportUnusedFunction]
        return await resends.get(db, identity.organization, id)

    @router.post("/resends/{id}/cancel")
    @exposed("nothing")
    async def cancel(db: Db, identity: Operator, id: int) -> resends.Resend:  # pyright: ignore[reportUnusedFunction]
        await resends.cancel(db, identity.organization, id, actor=identity)
        return await resends.get(db, identity.organization, id)


def _publish(router: APIRouter) -> None:
    @router.post("/publish", status_code=201)
    @exposed("call")
    async def publish(  # pyright: ignore[reportUnusedFunction]
        engine: Eng,
        identity: Publisher,
        new: NewEvent,
        response: Response,
        idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
    ) -> MadeEvent:
        """Publish an event. A repeated call with the same Idempotency-Key publishes nothing and returns the event with status 200."""
        async with engine.transaction(organization=identity.organization) as tx:
            if not await tx.fetchval("select 1 from onceward.event_types where name = $1", new.type):
                raise Invalid(
                    "type", f"{new.type[:128]!r} is not in the catalogue; add it with PUT /api/v1/event-types/NAME"
                )
            sent = await tx.publish(new.type, new.data, key=idempotency_key, channels=new.channels)
        if not sent.same:
            raise KeyReused("this Idempotency-Key was already used with different content; use a new key")
        if sent.duplicate:
            response.status_code = 200
        return MadeEvent(id=sent.id, message_id=sent.message_id, deliveries=sent.deliveries, duplicate=sent.duplicate)


def _sees_all(identity: Identity) -> bool:
    return identity.organization is None and identity.may("admin")
