"""`mcp`: let an assistant read what happened, and replay if it is allowed to."""

from __future__ import annotations

from typing import Annotated

import typer

from onceward.cli.exits import CommandFailed
from onceward.cli.session import run, settings_here


def register(cli: typer.Typer) -> None:
    cli.command("mcp")(serve_assistant)


def serve_assistant(
    allow_replay: Annotated[
        bool,
        typer.Option(
            "--allow-replay", help="Also offer replays of dead letters and events, and resends of deliveries."
        ),
    ] = False,
) -> None:
    """Offer an assistant tools to find out what happened and why (Model Context Protocol, on standard input and
    output).

    It asks the HTTP API of ONCEWARD_MCP_URL with the key ONCEWARD_MCP_API_KEY, and can do what this key can do: use a
    key with the role viewer. Without --allow-replay it only reads and rehearses.
    """
    from onceward.mcp.settings import McpSettings

    settings = settings_here().of(McpSettings)
    if settings.api_key is None:
        raise CommandFailed(
            "ONCEWARD_MCP_API_KEY is not set: create a key with `onceward keys add` and set it in the"
            " configuration of the assistant"
        )
    from onceward.mcp.server import serve

    run(serve(settings.url, settings.api_key.get_secret_value(), replays=allow_replay))
