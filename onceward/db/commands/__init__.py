"""Commands about the database: `migrate`, `db dump|restore|upgrade|psql|status|processes|reset|compact`."""

from __future__ import annotations

import typer

from onceward.db.commands import db, migrate


def register(cli: typer.Typer) -> None:
    migrate.register(cli)
    db.register(cli)
