"""HTTP routes of limits, for admins of the instance: slots in use, and the global limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, cast

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from onceward.context import Context
from onceward.db import Database
from onceward.limits import Held, LimitReached, held, set_global
from onceward.trust import Identity
from onceward.web.api import database_of
from onceward.web.auth import require
from onceward.web.exposure import exposed
from onceward.web.fields import example
from onceward.web.problems import Problem, request_id_of, respond

Db = Annotated[Database, Depends(database_of)]
Admin = Annotated[Identity, Depends(require("admin"))]


class GlobalLimit(BaseModel):
    model_config = example(at_most=20)

    at_most: int = Field(ge=1, le=1000)


router = APIRouter(prefix="/api/v1/limits", tags=["limits"])
"""The routes under `/api/v1/limits`."""


@router.get("")
async def find(db: Db, _identity: Admin, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> list[Held]:
    return await held(db, most=limit)


@router.put("/global")
@exposed("nothing")
async def put(db: Db, identity: Admin, requested: GlobalLimit) -> GlobalLimit:
    await set_global(db, requested.at_most, actor=identity)
    return requested


def routers(_context: Context) -> Sequence[APIRouter]:
    return (router,)


def add_error_handlers(api: FastAPI) -> None:
    """Answer `LimitReached` with 429 and a `Retry-After` header."""

    async def on_limit_reached(request: Request, error: Exception) -> Response:
        reached = cast(LimitReached, error)
        problem = Problem(429, str(reached), headers={"Retry-After": str(reached.retry_after_s)})
        return respond(problem, request_id_of(request))

    api.add_exception_handler(LimitReached, on_limit_reached)
