"""`dev`, `up`, `serve`, `worker`, `scheduler`: run an app with all roles or with one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from onceward.cli.app_loader import AppArgument, load_app
from onceward.cli.lean import import_fastapi, pause_collector, process_age_s
from onceward.cli.rendering import boxed, say
from onceward.cli.session import configure_process, features_with, run, settings_here, spare_collector

if TYPE_CHECKING:
    from onceward.feature import Role

HostOption = Annotated[str | None, typer.Option("--host", help="Address to listen on (ONCEWARD_HOST).")]
PortOption = Annotated[int | None, typer.Option("--port", help="Port to listen on (ONCEWARD_PORT).")]
ConcurrencyOption = Annotated[
    int | None, typer.Option("--concurrency", help="Work items to run at the same time (ONCEWARD_WORKER_CONCURRENCY).")
]
QueueOption = Annotated[
    list[str] | None, typer.Option("--queue", help="Take work only from this queue; can be repeated (ONCEWARD_QUEUES).")
]


def register(cli: typer.Typer) -> None:
    cli.command("dev")(dev)
    cli.command("up")(up)
    cli.command("serve")(serve)
    cli.command("worker")(worker)
    cli.command("scheduler")(scheduler)


def dev(app: AppArgument = None, host: HostOption = None, port: PortOption = None) -> None:
    """Run everything like `up`, and start it again after each change of the project's files. For development only."""
    from onceward.process.dev import Development

    settings = settings_here(host=host, port=port)
    configure_process(settings)
    if app is None:
        load_app(app)  # raises the error that says how to name an app
        return
    raise typer.Exit(Development(app, settings, Path.cwd()).run())


def up(app: AppArgument = None, host: HostOption = None, port: PortOption = None) -> None:
    """Run everything in one process: HTTP, workers and schedules."""
    _run(app, {"web", "worker", "scheduler"}, host=host, port=port)


def serve(app: AppArgument = None, host: HostOption = None, port: PortOption = None) -> None:
    """Run only the HTTP server: webhooks, API, dashboard and live queries."""
    _run(app, {"web"}, host=host, port=port)


def worker(app: AppArgument = None, concurrency: ConcurrencyOption = None, queue: QueueOption = None) -> None:
    """Run only a worker: events, jobs, messages and deliveries. You can run any number of workers."""
    _run(app, {"worker"}, worker_concurrency=concurrency, queues=tuple(queue) if queue else None)


def scheduler(app: AppArgument = None) -> None:
    """Run only the scheduler, which enqueues due runs. Several are safe: each due time is enqueued once."""
    _run(app, {"scheduler"})


def _run(path: str | None, roles: set[Role], **overrides: Any) -> None:
    pause_collector()
    from onceward.process.process import Process
    from onceward.telemetry import get_logger
    from onceward.work.overdue import EXIT_CODE

    settings = settings_here(**overrides)
    configure_process(settings)
    if "web" in roles:
        import_fastapi()  # before the app, which may import it too
    app = load_app(path)
    process = Process(app, settings, features_with(app), age_s=process_age_s())

    def ready() -> None:
        address = f" at {process.web.url}" if process.web is not None else ""
        database = "an embedded PostgreSQL" if settings.database_url is None else "PostgreSQL"
        say(f"{process.app.name} is up{address} on {database} ({', '.join(sorted(roles))}); press Ctrl-C to stop")
        if process.login_url is not None:
            boxed(f"Log in as {process.login_account} (this link works once, for 24 hours):", process.login_url)
        elif process.web is not None:
            say(
                "to log in: `onceward users login-link ADDRESS`, or `onceward users add ADDRESS --admin` for the "
                "first person"
            )
        spare_collector()

    def on_exit(error: BaseException) -> None:
        """A task that a handler had created ended the event loop. Nothing is released: what was running counts a
        crash."""
        get_logger("onceward.process").error("process.ended_by_handler", error=type(error).__name__)
        end_at_once(EXIT_CODE)

    async def main() -> None:
        await process.run(roles, ready=ready)
        if process.worker is not None and process.worker.is_stuck:
            end_at_once(0)  # asyncio would wait for a coroutine that swallows its cancellation

    run(main(), on_exit=on_exit)


def end_at_once(code: int) -> NoReturn:
    """End the process without waiting for tasks and threads."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
