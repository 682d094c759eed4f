"""Routes for evidence: the audit log and its proof, and system metrics."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel

from onceward.context import Context
from onceward.db import Database
from onceward.trust import AuditEntry, Identity, transaction_for
from onceward.trust.audit import EntryFilter, search_entries
from onceward.trust.chain import Head, prove
from onceward.web.api import context_of, database_of
from onceward.web.auth import require
from onceward.web.fields import Moment, Number
from onceward.web.paging import link_next
from onceward.web.problems import Problem
from onceward.windows import MOST_EXAMINED

TheContext = Annotated[Context, Depends(context_of)]
Db = Annotated[Database, Depends(database_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Admin = Annotated[Identity, Depends(require("admin"))]
Limit = Annotated[int, Query(ge=1, le=1000)]


class Proof(BaseModel):
    """The result of the proof. `problems` is empty if none of the checked `entries` was changed.

    `earlier` entries were proven by earlier runs and not checked again.
    """

    ok: bool
    head: str
    entries: int
    earlier: int
    pending: int
    problems: list[str]


class SystemMetric(BaseModel):
    id: UUID
    event_type: str
    severity: str
    user_id: UUID | None
    subject: str | None
    job_id: str | None
    metadata: dict[str, Any]
    timestamp: datetime


router = APIRouter(prefix="/api/v1", tags=["evidence"])


@router.get("/audit")
async def audit(
    db: Db,
    request: Request,
    response: Response,
    identity: Viewer,
    action: str | None = None,
    entity_type: str | None = None,
    entity_id: str | None = None,
    before: Number | None = None,
    limit: Limit = 100,
) -> list[AuditEntry]:
    """List audit entries, newest first. `before` is the last id of the previous page.

    A request examines about 8,000 entries at most. If there may be more matches, the header `Link` has the URL of the
    next page with `rel="next"`; a page can have fewer entries than `limit`, or none, and still have a next page.
    """
    filters = EntryFilter(identity.organization, action, entity_type, entity_id)
    async with transaction_for(db, identity) as tx:
        found = await search_entries(tx, filters, before=before, limit=limit, most=MOST_EXAMINED)
    link_next(request, response, before=found.next)
    return found.rows


@router.get("/audit/verify")
async def audit_verify(
    context: TheContext, db: Db, _identity: Admin, head: str | None = None, full: bool = False
) -> Proof:
    """Prove that no sealed entry was changed. Continues after the last proof; `full` checks every entry again."""
    try:
        known = [] if head is None else [Head.parse(head)]
    except ValueError as error:
        raise Problem(400, str(error)) from error
    async with db.acquire() as conn:
        report = await prove(conn, context.box, known=known, full=full)
    return Proof(
        ok=report.ok,
        head=str(report.head),
        entries=report.entries,
        earlier=report.earlier,
        pending=report.pending,
        problems=list(report.problems),
    )


@router.get("/system-metrics")
async def system_metrics(
    db: Db,
    _identity: Admin,
    event_type: str | None = None,
    severity: str | None = None,
    until: Moment | None = None,
    limit: Limit = 100,
) -> list[SystemMetric]:
    """List failures of the engine, newest first. `until` is the `timestamp` of the last one of the previous page."""
    rows = await db.fetch(
        "select * from onceward.system_metrics where ($1::text is null or event_type = $1)"
        " and ($2::text is null or severity = $2) and ($4::timestamptz is null or timestamp < $4)"
        " order by timestamp desc limit $3",
        event_type,
        severity,
        limit,
        until,
    )
    return [SystemMetric(**dict(row)) for row in rows]
