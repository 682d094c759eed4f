"""Actions on several rows, as a job: a few rows in each transaction, so that a kill costs nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

from onceward.desk.actions import Act, DeskAction, perform
from onceward.statements import read_statement
from onceward.trust.identity import Identity
from onceward.tx import Tx
from onceward.web.dashboard import ActionRefused

if TYPE_CHECKING:
    from onceward.app import Onceward
    from onceward.desk.desk import Desk
    from onceward.work.endings import JobEnd

AT_ONCE = 25
MOST_PROBLEMS = 100
MOST_ROWS = 10_000
START = read_statement("desk", "start_run")
TAKE = read_statement("desk", "take_run")
ADVANCE = read_statement("desk", "advance_run")
STOP = read_statement("desk", "stop_run")
MAY = "select onceward.may_still_act($1, $2, $3)"


def register(desk: Desk, app: Onceward) -> Any:
    """Add the job that runs actions on several rows to the app. It enqueues itself until all rows are done."""

    async def run_desk_action(tx: Tx, *, run: int) -> None:
        if await advance(desk, tx, run):
            await tx.enqueue(job, run=run)

    job = app.job(name=f"{desk.name}.desk_action")(run_desk_action)

    @job.on_end
    async def stop_run(tx: Tx, end: JobEnd) -> None:
        """Let the page of the run say that it will not go on: its job failed too often, or was cancelled."""
        if end.outcome != "success":
            why = "it was cancelled" if end.outcome == "cancelled" else f"job {end.id} failed ({end.reason})"
            await tx.execute(STOP, end.arguments["run"], why)

    return job


async def start(desk: Desk, tx: Tx, action: DeskAction, rows: list[str], act: Act[Any]) -> int:
    """Record a run over these rows and enqueue its job. Return its id."""
    name = f"{desk.name}.{action.listing.name}.{action.name}"
    run: int = await tx.fetchval(
        START,
        tx.organization,
        name,
        act.given.model_dump(mode="json"),
        act.reason,
        act.by.actor,
        started_by(act.by),
        rows,
    )
    await tx.enqueue(desk.run_job, run=run)
    return run


def started_by(identity: Identity) -> str:
    """Return the id of the user or key, which is asked again whether it may; empty for the command line."""
    return str(identity.member or identity.key_id or "")


async def advance(desk: Desk, tx: Tx, run: int) -> bool:
    """Do the next rows of a run. Return whether some are left."""
    row = await tx.fetchrow(TAKE, run)
    if row is None:
        return False
    _, listing, name = row["action"].split(".")
    action = desk.actions.get((listing, name))
    if action is None:
        raise LookupError(f"desk {desk.name} has no action {row['action']} any more")
    kind, _, label = row["actor"].partition(":")
    if kind != "operator" and not await tx.fetchval(
        MAY, kind, UUID(row["actor_id"]), list(desk.role_names(action.roles))
    ):
        await tx.execute(STOP, run, "the person who started it may not do this any more")
        return False
    rows: list[str] = row["rows"]
    given = action.model.model_validate(row["given"])
    by = Identity(kind, tx.organization, frozenset(), sub=row["actor_id"], label=label)
    batch = rows[row["done"] : row["done"] + AT_ONCE]
    succeeded, problems = 0, list[dict[str, str]]()
    for id in batch:
        try:
            async with tx.savepoint("desk_row"):
                await perform(tx, action, Act(id, given, by, row["reason"]), desk=desk.name)
            succeeded += 1
        except ActionRefused as refusal:
            problems.append({"id": id, "name": await _name(desk, tx, action, id), "why": str(refusal)[:300]})
    await tx.execute(ADVANCE, run, len(batch), succeeded, json.dumps(problems), MOST_PROBLEMS)
    return row["done"] + len(batch) < len(rows)


async def _name(desk: Desk, tx: Tx, action: DeskAction, id: str) -> str:
    """Return the title of a row, for the list of rows that were refused."""
    listing = action.listing
    title = desk.details[listing.name].title if listing.name in desk.details else listing.columns[0].expression
    found = await tx.fetchval(
        f"select ({title})::text from {listing.rows} where {listing.id} = $1::text::{listing.id_type}", id
    )
    return found or f"A {listing.noun} that is gone"
