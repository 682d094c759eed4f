"""The commands `cron ls|show|run|pause|resume|backfill`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from onceward.cli.app_loader import AppOption, load_app
from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened, run, settings_here

if TYPE_CHECKING:
    from onceward.app import Onceward
    from onceward.db import Database
    from onceward.schedules import Run, RunReport, Schedule

NameArgument = Annotated[str, typer.Argument(help="Name of the schedule.")]
BY = "operator:cli"


def register(cli: typer.Typer) -> None:
    group = typer.Typer(help="List, run, pause and resume schedules.", no_args_is_help=True)
    group.command("ls")(ls)
    group.command("show")(show)
    group.command("run")(run_one)
    group.command("pause")(pause)
    group.command("resume")(resume)
    group.command("backfill")(backfill)
    cli.add_typer(group, name="cron")


def ls(app: AppOption = None, as_json: JsonOption = False) -> None:
    """List all schedules with their last and next run."""

    async def main(app: Onceward, database: Database) -> list[dict[str, Any]]:
        from onceward.schedules import overview

        return await overview(database)

    columns = ("name", "when", "tz", "next_at", "last_status", "last_due", "last_duration_ms", "paused_at")
    listing(
        _with_database(app, main),
        columns=columns,
        as_json=as_json,
        empty="no schedules yet: a scheduler registers them when it starts",
    )


def show(name: NameArgument, app: AppOption = None, limit: int = 20, as_json: JsonOption = False) -> None:
    """Show the latest runs of a schedule, with the items that failed."""

    async def main(app: Onceward, database: Database) -> list[dict[str, Any]]:
        from onceward.schedules import history

        _find(app, name)
        return await history(database, name, limit=limit)

    runs = _with_database(app, main)
    if as_json:
        document(runs)
        return
    columns = (
        "id",
        "due_at",
        "origin",
        "status",
        "reason",
        "duration_ms",
        "processed",
        "succeeded",
        "failed",
        "skipped",
    )
    listing(runs, columns=columns, as_json=False, empty=f"{name} has not run yet")
    errors = [error for each in runs for error in each["errors"]]
    if errors:
        say("")
        listing(errors, columns=("run_id", "step", "key", "type", "message"), as_json=False)


def run_one(
    name: NameArgument,
    app: AppOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="Also exit with 1 if single items failed.")] = False,
) -> None:
    """Run a schedule now, in the foreground. If its last run failed, continue that run.

    Shows a progress bar on a terminal, otherwise JSON lines. Exits with 0 if the run finished, with 1 if it failed.
    """

    async def main(app: Onceward, database: Database) -> RunReport:
        from onceward.engine import Engine
        from onceward.schedules import Scheduler, StillRunning, run_here
        from onceward.trust.secrets import secret_box

        schedule = _find(app, name)
        await Scheduler(database, app.schedules.values()).register()
        box = partial(secret_box, settings_here())
        engine = Engine(database, app.registry, event_types=app.event_types, box=box)
        watch, finish = _watcher(name)
        try:
            return await run_here(database, schedule, open_tx=engine.open_tx, by=BY, on_progress=watch)
        except StillRunning as error:
            raise CommandFailed(str(error)) from None
        finally:
            finish()

    report = _with_database(app, main)
    _print_report(report)
    if report.status != "success":
        raise typer.Exit(Exit.FAILED)
    if strict and report.failed:
        raise typer.Exit(Exit.FAILED)


def pause(name: NameArgument, app: AppOption = None) -> None:
    """Pause a schedule: it gets no new runs until it is resumed."""

    async def main(app: Onceward, database: Database) -> bool:
        from onceward.schedules import pause as pause_schedule

        async with database.transaction(role="engine") as tx:
            return await pause_schedule(tx, name, by=BY)

    if not _with_database(app, main):
        raise CommandFailed(f"there is no schedule {name!r} in the database; `onceward cron ls` lists them")
    say(f"{name} is paused")


def resume(name: NameArgument, app: AppOption = None) -> None:
    """Resume a schedule from now on. Due times during the pause get no run."""

    async def main(app: Onceward, database: Database) -> bool:
        from onceward.schedules import resume as resume_schedule

        async with database.transaction(role="engine") as tx:
            return await resume_schedule(tx, name, by=BY)

    if not _with_database(app, main):
        raise CommandFailed(f"there is no paused schedule {name!r}; `onceward cron ls` lists them")
    say(f"{name} is resumed")


def backfill(
    name: NameArgument,
    since: Annotated[datetime, typer.Option(help="Only due times after this time, in UTC.")],
    until: Annotated[datetime, typer.Option(help="Only due times up to this time, in UTC.")],
    app: AppOption = None,
) -> None:
    """Create runs for past due times that have none. Workers execute them."""

    async def main(app: Onceward, database: Database) -> int:
        from datetime import UTC

        from onceward.schedules import Scheduler
        from onceward.schedules import backfill as backfill_schedule

        schedule = _find(app, name)
        await Scheduler(database, app.schedules.values()).register()
        async with database.transaction(role="engine") as tx:
            begin, end = since.replace(tzinfo=UTC), until.replace(tzinfo=UTC)
            return len(await backfill_schedule(tx, schedule, since=begin, until=end, by=BY))

    say(f"{_with_database(app, main)} runs of {name} created")


def _with_database(app_path: str | None, main: Callable[[Onceward, Database], Any]) -> Any:

    settings = settings_here()
    app = load_app(app_path)

    async def inside() -> Any:
        async with opened(settings) as configured:
            return await main(app, configured.database)

    return run(inside())


def _find(app: Onceward, name: str) -> Schedule:
    from onceward.schedules import NoSuchSchedule, find

    try:
        return find(app.schedules, name)
    except NoSuchSchedule as error:
        raise CommandFailed(str(error), Exit.USAGE) from None


def _watcher(name: str) -> tuple[Callable[[Run], None], Callable[[], None]]:
    """Return a function that shows the progress of a run, and one that ends the display."""
    if not sys.stdout.isatty():
        return _lines()
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar.start()
    task = bar.add_task(name, total=None)

    def show_progress(run: Run) -> None:
        failed = f" ({run.counts.failed} failed)" if run.counts.failed else ""
        bar.update(task, completed=run.counts.processed, total=run.total, description=name + failed)

    return show_progress, bar.stop


def _lines() -> tuple[Callable[[Run], None], Callable[[], None]]:
    """Show progress as JSON lines, at most one per second."""
    import time

    last = time.monotonic()

    def show_progress(run: Run) -> None:
        nonlocal last
        if time.monotonic() - last >= 1:
            last = time.monotonic()
            c = run.counts
            _line(
                "run_progress",
                schedule=run.schedule,
                run=run.id,
                processed=c.processed,
                failed=c.failed,
                total=run.total,
            )

    return show_progress, lambda: None


def _print_report(report: RunReport) -> None:
    counts = {name: getattr(report, name) for name in ("processed", "succeeded", "failed", "skipped", "duration_ms")}
    if not sys.stdout.isatty():
        _line(
            "run_finished",
            schedule=report.schedule,
            run=report.id,
            status=report.status,
            **counts,
            error=(report.error or {}).get("type"),
        )
        return
    why = f": {(report.error or {}).get('type')}" if report.status != "success" else ""
    say(f"{report.schedule} {report.status}{why} - " + ", ".join(f"{name} {value}" for name, value in counts.items()))


def _line(event: str, **members: Any) -> None:
    typer.echo(orjson.dumps({"event": event, **members}, default=str).decode())
