"""The commands `endpoints`, `deliveries` and `listen`."""

from __future__ import annotations

import typer

from onceward.outbox.commands import deliveries, endpoints, listen


def register(cli: typer.Typer) -> None:
    endpoints.register(cli)
    deliveries.register(cli)
    listen.register(cli)
