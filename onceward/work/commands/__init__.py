"""Commands about jobs, queues, workers and dead letters."""

from __future__ import annotations

import typer

from onceward.work.commands import dead_letters, jobs


def register(cli: typer.Typer) -> None:
    jobs.register(cli)
    dead_letters.register(cli)
