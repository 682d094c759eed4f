"""`up`, `serve`, `worker`, `scheduler`: run an app, whole or in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceward.cli.loading import AppArgument, load_app
from onceward.cli.rendering import say
from onceward.cli.session import configure_process, features_here, run, spare_collector

if TYPE_CHECKING:
    from onceward.feature import Role

HostOption = Annotated[str | None, typer.Option("--host", help="Address to listen on (ONCEWARD_HOST).")]
PortOption = Annotated[int | None, typer.Option("--port", help="Port to listen on (ONCEWARD_PORT).")]
ConcurrencyOption = Annotated[
    int | None, typer.Option("--concurrency", help="Pieces of work at once (ONCEWARD_WORKER_CONCURRENCY).")
]
QueueOption = Annotated[
    list[str] | None, typer.Option("--queue", help="Take from this queue only; may be given again (ONCEWARD_QUEUES).")
]


def register(cli: typer.Typer) -> None:
    cli.command("up")(up)
    cli.command("serve")(serve)
    cli.command("worker")(worker)
    cli.command("scheduler")(scheduler)


def up(app: AppArgument = None, host: HostOption = None, port: PortOption = None) -> None:
    """Run everything in one process: HTTP, workers and schedules."""
    _run(app, {"web", "worker", "scheduler"}, host=host, port=port)


def serve(app: AppArgument = None, host: HostOption = None, port: PortOption = None) -> None:
    """Answer HTTP only: webhooks, API, dashboard, live."""
    _run(app, {"web"}, host=host, port=port)


def worker(app: AppArgument = None, concurrency: ConcurrencyOption = None, queue: QueueOption = None) -> None:
    """Do the work only: events, jobs, messages, deliveries. Start as many as you like."""
    _run(app, {"worker"}, worker_concurrency=concurrency, queues=tuple(queue) if queue else None)


def scheduler(app: AppArgument = None) -> None:
    """Write due jobs only. Two of them do no harm: each due time is written once."""
    _run(app, {"scheduler"})


def _run(path: str | None, roles: set[Role], **overrides: Any) -> None:
    from onceward.process.process import Process
    from onceward.settings import load_settings

    settings = load_settings(**overrides)
    configure_process(settings)
    runtime = Process(load_app(path), settings, features_here())

    def ready() -> None:
        spare_collector()
        where = f" at {runtime.web.url}" if runtime.web is not None else ""
        database = "an embedded PostgreSQL" if settings.database_url is None else "PostgreSQL"
        say(f"{runtime.app.name} is up{where} on {database} ({', '.join(sorted(roles))}); Ctrl-C ends it")
        if runtime.first_login is not None:
            say(f"log in as administrator (works once, for 24 h): {runtime.first_login}")

    run(runtime.run(roles, ready=ready))
