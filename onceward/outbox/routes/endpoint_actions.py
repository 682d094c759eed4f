"""HTTP routes that act on an endpoint: disable, enable, test, recover, and links to the portal."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from onceward.outbox import Endpoint, portal, resends
from onceward.outbox.routes.callers import (
    Db,
    MadeEvent,
    Operator,
    Owner,
    Rate,
    RecentOwner,
    Replayer,
    TheOutbox,
)
from onceward.web.api import settings_of
from onceward.web.exposure import exposed
from onceward.web.fields import AtMost, example
from onceward.web.idempotency import withholds

router = APIRouter(prefix="/api/v1", tags=["outbound webhooks"])


class Recovery(BaseModel):
    """Resend all undelivered events since a time, also those published while the endpoint was disabled."""

    model_config = example(since="2031-06-21T00:00:00Z", rate_per_s=20)

    since: datetime
    until: datetime | None = None
    rate_per_s: Rate = resends.DEFAULT_RATE_PER_S


class Test(BaseModel):
    model_config = example(type="order.paid")

    type: str = "endpoint.test"


class PortalAccess(BaseModel):
    model_config = example(hours=24, may_act=False)

    hours: float = Field(24, gt=0, le=24 * 30)
    endpoint_ids: Annotated[list[UUID] | None, AtMost(1000)] = None
    may_act: bool = True
    embed_at: Annotated[list[Annotated[str, Field(max_length=300)]] | None, AtMost(10)] = Field(
        None, description="Origins (scheme and host) of the pages that may show the portal in a frame."
    )


@router.post("/endpoints/{endpoint_id}/disable")
@exposed("nothing")
async def disable(outbox: TheOutbox, identity: Operator, endpoint_id: UUID) -> Endpoint:
    await outbox.endpoints.disable(identity.organization, endpoint_id, actor=identity)
    return await outbox.endpoints.get(identity.organization, endpoint_id)


@router.post("/endpoints/{endpoint_id}/enable")
@exposed("call")
async def enable(outbox: TheOutbox, identity: Operator, endpoint_id: UUID) -> Endpoint:
    await outbox.endpoints.enable(identity.organization, endpoint_id, actor=identity)
    return await outbox.endpoints.get(identity.organization, endpoint_id)


@router.post("/endpoints/{endpoint_id}/test", status_code=202)
@exposed("call")
async def test(outbox: TheOutbox, identity: Operator, endpoint_id: UUID, requested: Test) -> MadeEvent:
    sent = await outbox.send_test(identity.organization, endpoint_id, actor=identity, type=requested.type)
    return MadeEvent(id=sent.id, message_id=sent.message_id, deliveries=sent.deliveries, duplicate=False)


@router.post("/endpoints/{endpoint_id}/recover", status_code=202)
@exposed("call")
async def recover(db: Db, identity: Replayer, endpoint_id: UUID, requested: Recovery) -> resends.Resend:
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
async def access(request: Request, db: Db, identity: RecentOwner, requested: PortalAccess) -> dict[str, Any]:
    created = await portal.create(
        db,
        identity.organization,
        hours=requested.hours,
        endpoint_ids=requested.endpoint_ids,
        may_act=requested.may_act,
        embed_at=requested.embed_at,
        actor=identity,
    )
    url = f"{settings_of(request).url}/portal?token={created.token}"
    return {"id": created.id, "url": url, "expires_at": created.expires_at}


@router.get("/portal-tokens")
async def list_portal_tokens(db: Db, identity: Owner) -> list[portal.PortalToken]:
    """List the links to the portal that are valid now, without their tokens."""
    return await portal.list_tokens(db, identity.organization)


@router.delete("/portal-tokens/{id}", status_code=204)
@exposed("nothing")
async def revoke_portal_token(db: Db, identity: Owner, id: UUID) -> None:
    """Revoke a link to the portal. It ends with its next request, on every node."""
    await portal.revoke(db, identity.organization, id, actor=identity)
