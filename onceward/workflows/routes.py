"""HTTP routes of workflows: start, list, show steps and attributes, signal, cancel, retry, fork."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from onceward.context import Context
from onceward.db import Database
from onceward.engine import Engine
from onceward.trust import Identity
from onceward.web.api import database_of, engine_of
from onceward.web.auth import require
from onceward.web.exposure import ANYTHING, exposed
from onceward.web.fields import Json, Moment, Number, Text, Why, example
from onceward.web.paging import link_next
from onceward.web.problems import Problem, invalid_request
from onceward.windows import MOST_EXAMINED
from onceward.work.offered import argument_errors, find_offered, not_offered
from onceward.workflows import QUEUE, WorkflowState, operate
from onceward.workflows.task import ConfiguredWorkflow

Db = Annotated[Database, Depends(database_of)]
TheEngine = Annotated[Engine, Depends(engine_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Operator = Annotated[Identity, Depends(require("operator"))]
Starter = Annotated[Identity, Depends(require("operator", permission="enqueue"))]


class Fork(Why):
    """`from_step` is the position or key of the first step to run again."""

    model_config = example(from_step="charge_card", reason="the payment service was down")

    from_step: Number | str


class Signal(BaseModel):
    model_config = example(name="approved", payload={"by": "ada"})

    name: str = Field(min_length=1, max_length=200)
    payload: Any = None


class NewWorkflow(BaseModel):
    """A workflow to start. `args` must fit its schema (`GET /api/v1/tasks`). With a key it starts once, ever."""

    model_config = {"extra": "forbid", **example(name="refund_cohort", args={"cohort": 7}, key="cohort:7")}

    name: str = Field(min_length=1, max_length=200)
    args: Json = {}
    key: Annotated[Text, Field(min_length=1, max_length=500)] | None = None
    run_at: Moment | None = None
    attributes: Json = {}


class StartedWorkflow(BaseModel):
    """`duplicate`: a workflow with the same name and key existed already."""

    id: int
    duplicate: bool


class SignalOutcome(BaseModel):
    """What the operation did: `cancelled`, `asked`, `compensating`; `delivered`, `kept`, `gone`; `retried`."""

    outcome: str


class Forked(BaseModel):
    id: int


router = APIRouter(prefix="/api/v1/workflows", tags=["workflows"])
"""The routes under `/api/v1/workflows`."""


@router.get("")
async def find(
    db: Db,
    request: Request,
    response: Response,
    identity: Viewer,
    name: str | None = None,
    state: str | None = None,
    key: str | None = None,
    attributes: Annotated[
        str | None, Query(description='JSON object that the attributes must contain: {"order": 7}')
    ] = None,
    before: Number | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> list[dict[str, Any]]:
    """List workflows, newest first. `before` is the last id of the previous page.

    A request examines about 8,000 workflows at most. If there may be more matches, the header `Link` has the URL of the
    next page with `rel="next"`; a page can have fewer workflows than `limit`, or none, and still have a next page.
    """
    # As the engine, filtered by organization: PostgreSQL does not use a jsonb index under row-level security.
    criteria = operate.WorkflowFilter(
        name=name, state=state, key=key, attributes=_object(attributes), organization=identity.organization
    )
    found = await operate.find(db, criteria, before=before, limit=limit, most=MOST_EXAMINED)
    link_next(request, response, before=found.next)
    return found.rows


@router.post(
    "",
    status_code=201,
    responses={200: {"model": StartedWorkflow, "description": "The key was used before: that workflow."}},
)
@exposed(*ANYTHING)
async def start(engine: TheEngine, identity: Starter, new: NewWorkflow, response: Response) -> StartedWorkflow:
    """Start a workflow. With a key that was used before, that workflow is returned with status 200."""
    workflow: ConfiguredWorkflow[..., Any] | None = find_offered(engine.registry, new.name, "workflow")
    if workflow is None:
        raise invalid_request([("body.name", not_offered(engine.registry, new.name, "workflow"))])
    if errors := argument_errors(workflow, new.args, "body.args"):
        raise invalid_request(errors)
    if new.key is not None:
        workflow = workflow.unique(new.key)
    if new.run_at is not None:
        workflow = workflow.schedule_at(new.run_at)
    if new.attributes:
        workflow = workflow.attributes(**new.attributes)
    async with engine.transaction(organization=identity.organization) as tx:
        started = await tx.start_workflow(workflow, **new.args)
    if started.duplicate:
        response.status_code = 200
    return StartedWorkflow(id=started.id, duplicate=started.duplicate)


@router.get("/{id}")
async def show(db: Db, identity: Viewer, id: Number) -> dict[str, Any]:
    return await operate.show(db, id, organization=identity.organization)


@router.post("/{id}/cancel")
@exposed(*ANYTHING)
async def cancel(engine: TheEngine, identity: Operator, id: Number, why: Why) -> SignalOutcome:
    with _refusals():
        outcome = await operate.cancel(
            engine.db, id, actor=identity, reason=why.reason, organization=identity.organization
        )
    engine.waker.wake(QUEUE)
    return SignalOutcome(outcome=outcome)


@router.post("/{id}/retry")
@exposed(*ANYTHING)
async def retry(engine: TheEngine, identity: Operator, id: Number, why: Why) -> SignalOutcome:
    with _refusals():
        await operate.retry(engine.db, id, actor=identity, reason=why.reason, organization=identity.organization)
    engine.waker.wake(QUEUE)
    return SignalOutcome(outcome="retried")


@router.post("/{id}/fork", status_code=201)
@exposed(*ANYTHING)
async def fork(engine: TheEngine, identity: Operator, id: Number, how: Fork) -> Forked:
    with _refusals():
        new = await operate.fork(
            engine.db,
            id,
            from_step=how.from_step,
            actor=identity,
            reason=how.reason,
            organization=identity.organization,
        )
    engine.waker.wake(QUEUE)
    return Forked(id=new)


@router.post("/{id}/signals")
@exposed(*ANYTHING)
async def signal(engine: TheEngine, identity: Operator, id: Number, sent: Signal) -> SignalOutcome:
    outcome = await operate.signal(
        engine.db, id, sent.name, sent.payload, actor=identity, organization=identity.organization
    )
    engine.waker.wake(QUEUE)
    return SignalOutcome(outcome=outcome)


@contextmanager
def _refusals() -> Generator[None]:
    """Answer 409 when the state of the workflow does not allow the request."""
    try:
        yield
    except WorkflowState as error:
        raise Problem(409, str(error)) from error


def _object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Problem(400, f"attributes is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise Problem(400, 'attributes must be a JSON object such as {"order": 7}')
    return value  # pyright: ignore[reportUnknownVariableType]


def routers(_context: Context) -> Sequence[APIRouter]:
    return (router,)
