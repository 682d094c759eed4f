"""Operator actions: find, show, cancel, retry, fork and signal workflows. The audit log records each change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import structlog

from onceward.db import Database, Transaction
from onceward.statements import read_statement, scoped
from onceward.trust import audit
from onceward.trust.errors import NotFound
from onceward.trust.identity import Identity
from onceward.windows import LAST, Walked, Window, walk
from onceward.work import in_batches
from onceward.workflows import workflow_start
from onceward.workflows.errors import WorkflowState

log = structlog.get_logger(__name__)

COLUMNS = """
       f.id, f.organization_id, f.name, f.key, f.version, f.state, f.attributes, f.error, f.caused_by, f.parent_id,
       f.forked_from, f.created_at, f.finished_at,
       case when w.id is null then null when w.dead_reason is not null then 'dead_letter'
            when w.lease is not null then 'processing' when w.sort_at = 'infinity' then 'waiting'
            when w.sort_at > onceward.now() then 'sleeping' else 'due' end as phase,
       case when w.dead_reason is null and w.sort_at < 'infinity' then w.sort_at end as due_at
"""
FIND = scoped(f"""
select {COLUMNS}
  from onceward.workflows f left join onceward.work w on w.id = f.id
 where f.id < $1 and f.id >= $2
   and ($4::text is null or f.name = $4) and ($5::text is null or f.state = $5)
   and ($6::uuid is null or f.organization_id = $6)
   and ($7::jsonb is null or f.attributes @> $7) and ($8::text is null or f.key = $8)
 order by f.id desc limit $3
""")
WINDOW = scoped("""
select id from onceward.workflows
 where id < $1 and id >= $2 and ($4::uuid is null or organization_id = $4) order by id desc offset $3 - 1 limit 1
""")
SHOW = f"""
select {COLUMNS}, f.args, f.result
  from onceward.workflows f left join onceward.work w on w.id = f.id
 where f.id = $1 and ($2::uuid is null or f.organization_id = $2)
"""
STEPS = read_statement("workflows", "list_steps")
REOPEN = read_statement("workflows", "reopen_workflow")
FORK = read_statement("workflows", "fork_workflow")
PRUNE = read_statement("workflows", "prune_workflows")
STRIP = read_statement("workflows", "strip_workflows")
ENDED = ("success", "failed", "cancelled", "continued")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFilter:
    """A filter for workflows. None matches everything; a workflow must contain all of `attributes`."""

    name: str | None = None
    state: str | None = None
    key: str | None = None
    attributes: dict[str, Any] | None = None
    organization: UUID | None = None


async def find(
    conn: Database | Transaction,
    criteria: WorkflowFilter,
    *,
    before: int | None = None,
    limit: int = 50,
    most: int | None = None,
) -> Walked:
    """Return the matching workflows, newest first, and where to continue. Examines `most` of them at most.

    Keys and attributes have indexes.
    """
    filters = (criteria.name, criteria.state, criteria.organization, criteria.attributes, criteria.key)
    statement = FIND.of(criteria.organization)
    if criteria.key is not None or criteria.attributes is not None:
        rows = await conn.fetch(statement, LAST if before is None else before, 0, limit + 1, *filters)
        found = Walked(rows[:limit], rows[limit - 1]["id"] if len(rows) > limit else None)
    else:
        windows = (Window(WINDOW.of(criteria.organization), (criteria.organization,)),)
        found = await walk(conn, statement, *filters, windows=windows, want=limit, before=before, most=most)
    return Walked([dict(row) for row in found.rows], found.next, found.unfinished)


async def show(conn: Database | Transaction, id: int, *, organization: UUID | None = None) -> dict[str, Any]:
    """Return one workflow with its steps and compensations, in order."""
    row = await conn.fetchrow(SHOW, id, organization)
    if row is None:
        raise NotFound(f"there is no workflow {id}, or it belongs to another organization")
    return {**dict(row), "steps": [dict(step) for step in await conn.fetch(STEPS, id)]}


async def cancel(
    db: Database, id: int, *, actor: str | Identity, reason: str = "", organization: UUID | None = None
) -> str:
    """Cancel a workflow and undo its steps. Return `cancelled`, `asked` (its worker will stop it) or `compensating`."""
    async with db.transaction(role="engine") as tx:
        flow = await _locked(tx, id, organization)
        if flow["state"] in ENDED:
            raise WorkflowState(f"workflow {id} has already ended as {flow['state']} and cannot be cancelled")
        if flow["state"] == "dead_letter":
            await tx.fetchval("select onceward.replay($1)", id)
        outcome: str = await tx.fetchval("select onceward.cancel($1)", id)
        state: str = await tx.fetchval("select state from onceward.workflows where id = $1", id)
        await _record(tx, "cancel", flow, actor, reason)
    return "compensating" if state == "compensating" and outcome == "cancelled" else outcome


async def retry(
    db: Database, id: int, *, actor: str | Identity, reason: str = "", organization: UUID | None = None
) -> None:
    """Continue a dead letter where it stopped, or retry the failed steps of a failed workflow."""
    async with db.transaction(role="engine") as tx:
        flow = await _locked(tx, id, organization)
        if flow["state"] == "dead_letter":
            await tx.fetchval("select onceward.replay($1)", id)
        elif flow["state"] == "failed":
            compensated = await tx.fetchval(
                "select exists (select from onceward.workflow_steps where workflow_id = $1 and kind = 'compensation')",
                id,
            )
            if compensated:
                raise WorkflowState(
                    f"workflow {id} has run its compensations and cannot be retried: fork it from a step instead"
                )
            await tx.fetchrow(REOPEN, id)
            await tx.execute(
                "insert into onceward.work (id, organization_id, line, kind, task, queue, sort_at)"
                " values ($1, $2, onceward.line_of($2, null), 'workflow', 'workflow:' || $3, 'workflows', "
                "onceward.now())",
                id,
                flow["organization_id"],
                flow["name"],
            )
        else:
            raise WorkflowState(
                f"workflow {id} is {flow['state']}: only dead letters and failed workflows can be retried"
            )
        await _record(tx, "retry", flow, actor, reason)


async def fork(
    db: Database,
    id: int,
    *,
    from_step: int | str,
    actor: str | Identity,
    reason: str = "",
    organization: UUID | None = None,
) -> int:
    """Start a new workflow with the steps recorded before `from_step` (position or key). Return the new id."""
    async with db.transaction(role="engine") as tx:
        flow = await _locked(tx, id, organization)
        if flow["state"] not in (*ENDED, "dead_letter"):
            raise WorkflowState(f"workflow {id} is {flow['state']}: cancel it or wait until it has ended, then fork it")
        position: int | None = await tx.fetchval(
            "select position from onceward.workflow_steps"
            " where workflow_id = $1 and (position::text = $2 or key = $2) order by position limit 1",
            id,
            str(from_step),
        )
        if position is None:
            raise WorkflowState(
                f"workflow {id} has no step {from_step!r}: `onceward workflows show` lists positions and keys"
            )
        new: int = await tx.fetchval(FORK, id, position)
        await _record(tx, "fork", flow, actor, reason, {"new": new, "from": position})
    return new


async def signal(
    db: Database, id: int, name: str, payload: Any, *, actor: str | Identity, organization: UUID | None = None
) -> str:
    """Send a signal for an operator. Return `delivered`, `kept` or `gone`, as `tx.signal_workflow` does."""
    async with db.transaction(role="engine") as tx:
        flow = await _locked(tx, id, organization)
        outcome = await workflow_start.signal(tx, id, name, payload)
        await _record(tx, "signal", flow, actor, "", {"name": name, "outcome": outcome})
    return outcome


async def prune(db: Database, *, keep: timedelta) -> int:
    """Delete workflows that ended before `keep`. A workflow with a key keeps its row, so that its key stays used.

    Returns how many were deleted.
    """
    deleted = await in_batches(partial(db.fetchval, PRUNE, keep))
    await in_batches(partial(db.fetchval, STRIP, keep))
    return deleted


async def _locked(tx: Transaction, id: int, organization: UUID | None) -> Any:
    row = await tx.fetchrow(
        "select id, name, state, organization_id from onceward.workflows"
        " where id = $1 and ($2::uuid is null or organization_id = $2) for update",
        id,
        organization,
    )
    if row is None:
        raise NotFound(f"there is no workflow {id}, or it belongs to another organization")
    return row


async def _record(
    tx: Transaction, verb: str, flow: Any, actor: str | Identity, reason: str, more: dict[str, Any] | None = None
) -> None:
    await audit.record(
        tx,
        f"workflow.{verb}",
        entity_type="workflow",
        entity_id=flow["id"],
        actor=actor,
        reason=reason or None,
        organization=flow["organization_id"],
        metadata={"name": flow["name"], **(more or {})},
    )


def tell(flow: dict[str, Any]) -> list[str]:
    """Return a workflow and its steps as lines of text."""
    head = f"workflow {flow['id']} {flow['name']}: {flow['state']}"
    if flow["phase"] is not None:
        head += f", {flow['phase']}" + (f" until {_time(flow['due_at'])}" if flow["phase"] == "sleeping" else "")
    lines = [head]
    if flow["error"]:
        lines.append(f"  error: {flow['error'].get('type')}: {flow['error'].get('message')}")
    for step in flow["steps"]:
        what = f"undo of {step['compensation_of']}" if step["kind"] == "compensation" else step["kind"]
        tries = f", {step['attempts']} attempts" if step["attempts"] > 1 else ""
        lines.append(f"  {step['position']:>4}  {step['state']:<10}  {step['key']}  ({what}{tries})")
        if step["error"]:
            lines.append(f"        {step['error'].get('type')}: {step['error'].get('message')}")
    return lines


def _time(at: datetime | None) -> str:
    return "" if at is None else at.isoformat(timespec="seconds")
