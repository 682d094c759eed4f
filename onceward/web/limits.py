"""Limits over HTTP, for the instance's admins: what is held, and the global limit."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from onceward.db import Database
from onceward.limits import Held, held, set_global
from onceward.trust import Identity
from onceward.web.api import database_of
from onceward.web.auth import require

Db = Annotated[Database, Depends(database_of)]
Admin = Annotated[Identity, Depends(require("admin"))]


class GlobalLimit(BaseModel):
    at_most: int = Field(ge=1, le=1000)


def limits_router() -> APIRouter:
    """`/api/v1/limits`: slots in use by key, and the global limit."""
    router = APIRouter(prefix="/api/v1/limits", tags=["limits"])

    @router.get("")
    async def find(db: Db, _identity: Admin, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> list[Held]:  # pyright: ignore[reportUnusedFunction]
        return await held(db, most=limit)

    @router.put("/global")
    async def put(db: Db, identity: Admin, wanted: GlobalLimit) -> GlobalLimit:  # pyright: ignore[reportUnusedFunction]
        await set_global(db, wanted.at_most, actor=identity)
        return wanted

    return router
