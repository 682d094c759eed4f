"""Commands about jobs, queues, workers, dead letters, consequences, and recovery after a restore."""

from __future__ import annotations

import typer

from onceward.work.commands import dead_letters, jobs, recovery, trace


def register(cli: typer.Typer) -> None:
    jobs.register(cli)
    dead_letters.register(cli)
    trace.register(cli)
    recovery.register(cli)
