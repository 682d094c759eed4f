"""HTTP route of rehearsals, for those who may replay: what handlers would do to events and jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from onceward.context import Context
from onceward.rehearsal.errors import RehearsalError, UnknownWork
from onceward.rehearsal.preview import AT_MOST, Previews, as_documents
from onceward.trust import Identity
from onceward.web.api import context_of
from onceward.web.auth import require
from onceward.web.exposure import exposed
from onceward.web.fields import AtMost, Number, example
from onceward.web.problems import Problem

TheContext = Annotated[Context, Depends(context_of)]
Replayer = Annotated[Identity, Depends(require("operator", permission="replay"))]


class ToRehearse(BaseModel):
    """The events and jobs to rehearse, at most 25."""

    model_config = {"extra": "forbid", **example(ids=[48211])}

    ids: Annotated[list[Number], AtMost(AT_MOST), Field(min_length=1)]


class Rehearsed(BaseModel):
    """What each event or job would cause. Nothing was committed. After five seconds the rest is left out."""

    rehearsed: int
    of: int
    counts: dict[str, int]
    work: list[dict[str, Any]]


router = APIRouter(prefix="/api/v1/rehearsals", tags=["rehearsals"])


@router.post("")
@exposed("nothing")
async def rehearse(context: TheContext, identity: Replayer, body: ToRehearse) -> Rehearsed:
    """Run the handlers of events and jobs in transactions that are rolled back, and return what they would cause."""
    try:
        shown = await context.part(Previews).of(body.ids, organization=identity.organization)
    except UnknownWork as error:
        raise Problem(404, str(error)) from None
    except RehearsalError as error:
        raise Problem(503, str(error)) from None
    return Rehearsed(rehearsed=len(shown.shown), of=shown.of, counts=shown.counts, work=as_documents(shown.shown))


def routers(_context: Context) -> Sequence[APIRouter]:
    return (router,)
