"""Commands about sources and events, and `trigger`, which sends a signed test webhook."""

from __future__ import annotations

import typer

from onceward.inbox.commands import events, sources, trigger


def register(cli: typer.Typer) -> None:
    sources.register(cli)
    events.register(cli)
    trigger.register(cli)
