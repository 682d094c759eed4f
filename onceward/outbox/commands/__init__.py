"""Commands about endpoints and deliveries, and `listen`, a receiver that verifies."""

from __future__ import annotations

import typer

from onceward.outbox.commands import deliveries, endpoints, listen


def register(cli: typer.Typer) -> None:
    endpoints.register(cli)
    deliveries.register(cli)
    listen.register(cli)
