"""`jobs`, `queues`, `workers`: inspect and control work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from onceward.cli.exits import CommandFailed
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run

if TYPE_CHECKING:
    from onceward.db import Database

T = TypeVar("T")

State = Literal[
    "pending", "processing", "overdue", "success", "dead_letter", "failed", "cancelled", "discarded", "unknown"
]

Id = Annotated[int, typer.Argument(metavar="ID", help="The id of the job.")]
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The name of the queue.")]
Reason = Annotated[str, typer.Option("--reason", help="Why you do this; written to the audit log.")]

jobs = typer.Typer(no_args_is_help=True, help="Jobs: list, show, follow or cancel them.")
queues = typer.Typer(no_args_is_help=True, help="Queues: show depth and age, pause and resume on all nodes.")
workers = typer.Typer(no_args_is_help=True, help="Workers: list them with the work that they hold.")

JOB_COLUMNS = ("id", "task", "state", "attempts", "queue", "created_at", "due_at", "finished_at", "caused_by")


def register(cli: typer.Typer) -> None:
    cli.add_typer(jobs, name="jobs")
    cli.add_typer(queues, name="queues")
    cli.add_typer(workers, name="workers")


def _query(read: Callable[[Database], Awaitable[T]]) -> T:
    async def query() -> T:
        async with opened_database() as db:
            return await read(db)

    return run(query())


@jobs.command("ls")
def jobs_ls(
    task: Annotated[str | None, typer.Option("--task", help="Only jobs of this name.")] = None,
    state: Annotated[State | None, typer.Option("--state", help="Only jobs in this state.")] = None,
    before: Annotated[int | None, typer.Option("--before", help="Only jobs with a smaller id: the next page.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000)] = 50,
    as_json: JsonOption = False,
) -> None:
    """List jobs, newest first, with their state."""
    from onceward.work import controls

    found = _query(lambda db: controls.jobs(db, task=task, state=state, before=before, limit=limit))
    listing([dict(row) for row in found.rows], columns=JOB_COLUMNS, as_json=as_json, empty="no jobs")


@jobs.command("show")
def jobs_show(id: Id) -> None:
    """Print one job with its arguments, state and every attempt as JSON."""
    from onceward.work import controls

    job = _query(lambda db: controls.show(db, id))
    if job is None:
        raise CommandFailed(f"no job has the id {id}: it never existed, or it was pruned")
    document(job)


@jobs.command("tail")
def jobs_tail(
    task: Annotated[str | None, typer.Option("--task", help="Only jobs of this name.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print attempts as they finish, until interrupted."""
    run(_tail(task, as_json))


async def _tail(task: str | None, as_json: bool) -> None:
    import asyncio

    query = (
        "select work_id as id, kind, task, number, outcome, error ->> 'type' as error, finished_at,"
        " round(extract(epoch from finished_at - started_at)::numeric * 1000, 1)::float8 as ms from onceward.attempts"
        " where finished_at > $1 and ($2::text is null or task = $2) order by finished_at limit 1000"
    )
    async with opened_database() as db:
        since = await db.fetchval("select clock_timestamp()")
        while True:
            for row in await db.fetch(query, since, task):
                since = row["finished_at"]
                if as_json:
                    document(dict(row))
                else:
                    error = f" {row['error']}" if row["error"] else ""
                    say(
                        f"{since:%H:%M:%S.%f} {row['kind']} {row['id']} {row['task']} {row['outcome']}{error} "
                        f"{row['ms']} ms"
                    )
            await asyncio.sleep(0.5)


@jobs.command("cancel")
def jobs_cancel(id: Id, reason: Reason = "") -> None:
    """Cancel a job. A waiting job ends at once; the worker of a running job cancels its handler."""
    from onceward.trust.identity import COMMAND_LINE
    from onceward.work import controls

    outcome = _query(lambda db: controls.cancel(db, id, actor=COMMAND_LINE, reason=reason))
    if outcome == "gone":
        raise CommandFailed(f"job {id} is not waiting or running: it is finished, a dead letter, or unknown")
    say(f"job {id}: " + ("cancelled" if outcome == "cancelled" else "its worker will stop it within about a second"))


@queues.command("ls")
def queues_ls(as_json: JsonOption = False) -> None:
    """List queues with the number of due, later, running and dead rows (up to 10,000 each), and the age of the
    oldest due work."""
    from onceward.work import controls

    columns = ("queue", "due", "later", "running", "dead", "more", "oldest_due_s", "paused_at", "paused_by")
    listing(_query(controls.queues), columns=columns, as_json=as_json, empty="the queues are empty")


@queues.command("waiting")
def queues_waiting(
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many to list.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List the organizations whose due work waits, by queue, with its number (up to 10,000) and the age of the
    oldest."""
    from onceward.work import controls

    columns = ("queue", "organization", "due", "oldest_due_s")
    rows = _query(lambda db: controls.waiting(db, limit=limit))
    listing(rows, columns=columns, as_json=as_json, empty="no due work waits outside lanes")


@queues.command("pause")
def queues_pause(queue: Queue, reason: Reason = "") -> None:
    """Stop claiming from a queue on all nodes. Running work finishes."""
    from onceward.trust.identity import COMMAND_LINE
    from onceward.work import controls

    _query(lambda db: controls.pause(db, queue, actor=COMMAND_LINE, reason=reason))
    say(f"queue {queue} is paused; resume it with `onceward queues resume {queue}`")


@queues.command("resume")
def queues_resume(queue: Queue) -> None:
    """Claim from a paused queue again."""
    from onceward.trust.identity import COMMAND_LINE
    from onceward.work import controls

    done = _query(lambda db: controls.resume(db, queue, actor=COMMAND_LINE))
    say(f"queue {queue} is resumed" if done else f"queue {queue} was not paused")


@workers.command("ls")
def workers_ls(as_json: JsonOption = False) -> None:
    """List workers with their version, queues, claimed rows and heartbeat."""
    from onceward.work import controls

    columns = ("id", "name", "version", "queues", "tasks", "claimed", "started_at", "beat_at")
    rows: list[dict[str, Any]] = _query(controls.workers)
    listing(
        rows,
        columns=columns,
        as_json=as_json,
        empty="no worker is running: start one with `onceward worker pkg.module:app`",
    )
