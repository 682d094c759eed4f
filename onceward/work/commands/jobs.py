"""`jobs`, `queues`, `workers`: look at work and steer it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from onceward.cli.exits import CommandFailed
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run

if TYPE_CHECKING:
    from onceward.db import Database

T = TypeVar("T")

Id = Annotated[int, typer.Argument(metavar="ID", help="The number of the job.")]
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The name of the queue.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it goes into the audit log.")]

jobs = typer.Typer(no_args_is_help=True, help="Jobs: list them, look at one, follow them, cancel.")
queues = typer.Typer(no_args_is_help=True, help="Queues: depth and age, pause and resume on all nodes.")
workers = typer.Typer(no_args_is_help=True, help="Workers: who is alive and what they hold.")

JOB_COLUMNS = ("id", "task", "state", "attempts", "queue", "created_at", "due_at", "finished_at", "caused_by")


def register(cli: typer.Typer) -> None:
    cli.add_typer(jobs, name="jobs")
    cli.add_typer(queues, name="queues")
    cli.add_typer(workers, name="workers")


def _ask(question: Callable[[Database], Awaitable[T]]) -> T:
    async def ask() -> T:
        async with opened_database() as db:
            return await question(db)

    return run(ask())


@jobs.command("ls")
def jobs_ls(
    task: Annotated[str | None, typer.Option("--task", help="Only jobs of this name.")] = None,
    before: Annotated[int | None, typer.Option("--before", help="Older than this id: the next page.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000)] = 50,
    as_json: JsonOption = False,
) -> None:
    """List jobs, newest first, with their state."""
    from onceward.work import controls

    found = _ask(lambda db: controls.jobs(db, task=task, before=before, limit=limit))
    listing(found, columns=JOB_COLUMNS, as_json=as_json, empty="no jobs")


@jobs.command("show")
def jobs_show(id: Id) -> None:
    """Show one job: arguments, state, every attempt with its error. One JSON document."""
    from onceward.work import controls

    found = _ask(lambda db: controls.show(db, id))
    if found is None:
        raise CommandFailed(f"no job {id}: it never was, or it has been pruned")
    document(found)


@jobs.command("tail")
def jobs_tail(
    task: Annotated[str | None, typer.Option("--task", help="Only jobs of this name.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print attempts as they finish, until interrupted."""
    run(_tail(task, as_json))


async def _tail(task: str | None, as_json: bool) -> None:
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
                        f"{since:%H:%M:%S.%f} {row['kind']} {row['id']} {row['task']} {row['outcome']}{error} {row['ms']} ms"
                    )
            await asyncio.sleep(0.5)


@jobs.command("cancel")
def jobs_cancel(id: Id, reason: Reason = "") -> None:
    """Cancel a job: a waiting one ends at once, a running one is asked to stop."""
    from onceward.trust.identity import COMMAND_LINE
    from onceward.work import controls

    said = _ask(lambda db: controls.cancel(db, id, actor=COMMAND_LINE, reason=reason))
    if said == "gone":
        raise CommandFailed(f"job {id} is not waiting or running: it is finished, dead, or never was")
    say(
        f"job {id}: "
        + ("cancelled" if said == "cancelled" else "asked to stop; its worker hears of it within a second")
    )


@queues.command("ls")
def queues_ls(as_json: JsonOption = False) -> None:
    """Show each queue: what is due, later, running, dead, and the age of the oldest that is due."""
    from onceward.work import controls

    columns = ("queue", "due", "later", "running", "dead", "oldest_due_s", "paused_at", "paused_by")
    listing(_ask(controls.queues), columns=columns, as_json=as_json, empty="nothing is queued")


@queues.command("pause")
def queues_pause(queue: Queue, reason: Reason = "") -> None:
    """Stop claiming from a queue, on all nodes. What runs finishes."""
    from onceward.trust.identity import COMMAND_LINE
    from onceward.work import controls

    _ask(lambda db: controls.pause(db, queue, actor=COMMAND_LINE, reason=reason))
    say(f"queue {queue} is paused; `onceward queues resume {queue}` lets it go on")


@queues.command("resume")
def queues_resume(queue: Queue) -> None:
    """Claim from a paused queue again."""
    from onceward.trust.identity import COMMAND_LINE
    from onceward.work import controls

    done = _ask(lambda db: controls.resume(db, queue, actor=COMMAND_LINE))
    say(f"queue {queue} goes on" if done else f"queue {queue} was not paused")


@workers.command("ls")
def workers_ls(as_json: JsonOption = False) -> None:
    """Show who is working: version, queues, what they have claimed, their heartbeat."""
    from onceward.work import controls

    columns = ("id", "name", "version", "queues", "tasks", "claimed", "started_at", "beat_at", "stopping")
    rows: list[dict[str, Any]] = _ask(controls.workers)
    listing(rows, columns=columns, as_json=as_json, empty="no worker is running: `onceward worker pkg.module:app`")
