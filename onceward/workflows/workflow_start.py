"""Start workflows and send them signals, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from onceward.db import Connection, RawJson, Transaction, dump_json
from onceward.statements import named, read_statement
from onceward.work.job_task import same_organization
from onceward.workflows.task import QUEUE, ConfiguredWorkflow

START_MANY = read_statement("workflows", "start_many")
START_ONE = named(read_statement("workflows", "start_one"))


R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Started(Generic[R_co]):
    """A started workflow. `duplicate` means that it already existed with the same key."""

    id: int
    duplicate: bool = False


class StartRequest(NamedTuple):
    """A validated request to start one workflow."""

    name: str
    args: str
    version: str
    attributes: str | None
    run_at: datetime | None
    delay_s: float
    organization: UUID | None
    caused_by: int | None
    key: str | None = None
    parent: int | None = None
    position: int | None = None


def start_request(
    workflow: ConfiguredWorkflow[..., Any],
    arguments: dict[str, Any],
    *,
    organization: UUID | None = None,
    caused_by: int | None = None,
    parent: int | None = None,
    position: int | None = None,
) -> StartRequest:
    """Return a validated start request. Raises TypeError or ValueError that names the wrong argument."""
    options, task = workflow.options, workflow.workflow
    if options.organization is not None:
        organization = same_organization(workflow.name, options.organization, organization)
    return StartRequest(
        workflow.name,
        task.dump(arguments),
        task.version,
        dump_json(dict(options.attributes)) if options.attributes else None,
        options.run_at,
        options.delay.total_seconds(),
        organization,
        caused_by,
        options.key,
        parent,
        position,
    )


async def insert(conn: Connection, requests: Sequence[StartRequest]) -> list[Started[Any]]:
    """Insert the workflows in order, in the connection's current transaction."""
    if all(each.key is None and each.parent is None for each in requests):
        columns = list(zip(*requests, strict=True))[:8]
        return [Started(row["id"]) for row in await conn.fetch(START_MANY, *columns)]
    started: list[Started[Any]] = []
    for each in requests:
        row = await conn.fetchrow(
            START_ONE.text,
            *START_ONE.values(
                name=each.name,
                args=RawJson(each.args),
                key=each.key,
                version=each.version,
                attributes=None if each.attributes is None else RawJson(each.attributes),
                run_at=each.run_at,
                delay_s=each.delay_s,
                parent=each.parent,
                position=each.position,
                organization=each.organization,
                caused_by=each.caused_by,
            ),
        )
        assert row is not None
        started.append(Started(row["id"], row["duplicate"]))
    return started


async def start(tx: Transaction, request: StartRequest, *, wake: Callable[[str], None] | None = None) -> Started[Any]:
    """Start a workflow in this transaction. Its commit wakes the workers."""
    [started] = await insert(tx.conn, [request])
    if wake is not None:
        tx.after_commit(lambda: wake(QUEUE))
    return started


async def signal(
    tx: Transaction, id: int, name: str, payload: Any = None, *, wake: Callable[[str], None] | None = None
) -> str:
    """Send a signal. Return `delivered` (the workflow waited), `kept` (for a later wait) or `gone` (it has ended)."""
    outcome: str = await tx.fetchval(
        "select onceward.workflow_signal($1, $2, $3)", id, name, RawJson(dump_json(payload))
    )
    if wake is not None and outcome == "delivered":
        tx.after_commit(lambda: wake(QUEUE))
    return outcome


async def announce(tx: Transaction, name: str, payload: Any, *, wake: Callable[[str], None] | None = None) -> list[int]:
    """Answer every workflow of this organization whose wait matches this event. Return their ids."""
    answered: list[int] = await tx.fetchval(
        "select onceward.workflow_announce($1, $2)", name, RawJson(dump_json(payload))
    )
    if wake is not None and answered:
        tx.after_commit(lambda: wake(QUEUE))
    return answered
