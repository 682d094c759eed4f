"""HTTP routes of deliveries: list, show, resend, replay."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from onceward.outbox import delivery_history, resends
from onceward.outbox.routes.callers import (
    Db,
    Eng,
    Limit,
    Rate,
    Replayer,
    Types,
    Viewer,
    sees_all,
)
from onceward.web.exposure import exposed
from onceward.web.fields import AtMost, Number, example
from onceward.web.paging import link_next
from onceward.windows import MOST_JOINED

router = APIRouter(prefix="/api/v1", tags=["outbound webhooks"])


class Replay(BaseModel):
    """Resend all deliveries that match, delivered or not."""

    model_config = example(since="2031-06-21T00:00:00Z", types=["order.paid"], statuses=["dead_letter"])

    since: datetime
    until: datetime | None = None
    endpoint_id: UUID | None = None
    types: Types | None = None
    statuses: Annotated[list[str] | None, AtMost(20)] = None
    rate_per_s: Rate = resends.DEFAULT_RATE_PER_S


@router.get("/deliveries")
async def listed(
    db: Db,
    request: Request,
    response: Response,
    identity: Viewer,
    endpoint_id: UUID | None = None,
    status: Literal["pending", "success", "skipped", "failed", "dead_letter", "cancelled"] | None = None,
    type: str | None = None,
    message_id: str | None = None,
    before: Number | None = None,
    limit: Limit = 50,
) -> list[delivery_history.DeliveryRow]:
    """List deliveries, newest first. `before` is the last id of the previous page.

    A request examines about 400 deliveries at most. If there may be more matches, the header `Link` has the URL of the
    next page with `rel="next"`; a page can have fewer deliveries than `limit`, or none, and still have a next page.
    """
    found = await delivery_history.deliveries(
        db,
        identity.organization,
        all_organizations=sees_all(identity),
        endpoint_ids=None if endpoint_id is None else [endpoint_id],
        status=status,
        type=type,
        message_id=message_id,
        before=before,
        limit=limit,
        most=MOST_JOINED,
    )
    link_next(request, response, before=found.next)
    return found.rows


@router.get("/deliveries/{id}")
async def one(db: Db, identity: Viewer, id: Number) -> dict[str, Any]:
    row, body, attempts = await delivery_history.delivery(
        db, identity.organization, id, all_organizations=sees_all(identity)
    )
    return {"delivery": row, "body": body, "attempts": attempts}


@router.post("/deliveries/{id}/resend", status_code=202)
@exposed("call")
async def resend(db: Db, engine: Eng, identity: Replayer, id: Number) -> dict[str, str]:
    await resends.resend_one(db, identity.organization, id, actor=identity)
    for queue in ("deliveries", "deliveries-retry"):
        engine.waker.wake(queue)
    return {"status": "resent"}


@router.post("/deliveries/replay", status_code=202)
@exposed("call")
async def replay(db: Db, identity: Replayer, requested: Replay) -> resends.Resend:
    return await resends.start(db, identity.organization, verb="replay", actor=identity, **requested.model_dump())
