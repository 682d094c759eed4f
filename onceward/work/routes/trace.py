"""HTTP route of the tree of consequences."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from onceward.context import Context
from onceward.db import Database
from onceward.trust import Identity, transaction_for
from onceward.web.api import context_of, database_of
from onceward.web.auth import require
from onceward.work import trace

TheContext = Annotated[Context, Depends(context_of)]
Db = Annotated[Database, Depends(database_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]


router = APIRouter(prefix="/api/v1", tags=["evidence"])


@router.get("/trace/{ref}")
async def trace_of(context: TheContext, db: Db, identity: Viewer, ref: str) -> dict[str, Any]:
    """Return the causes and all consequences of an event, job, message or other row."""
    async with transaction_for(db, identity) as tx:
        return (await trace(tx, ref, context.features.traced)).as_json()
