"""Commands about jobs, queues, workers, dead letters and consequences."""

from __future__ import annotations

import typer

from onceward.work.commands import dead_letters, jobs, trace


def register(cli: typer.Typer) -> None:
    jobs.register(cli)
    dead_letters.register(cli)
    trace.register(cli)
