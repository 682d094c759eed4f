"""`integrations`: list the services that are installed, with what each can do, and show the contract page of one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, listing, say
from onceward.cli.session import settings_here

COLUMNS = ("name", "title", "capabilities", "from", "configured")

group = typer.Typer(no_args_is_help=True, help="Integrations with other services: `ls`, `show`.")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="integrations")


@group.command("ls")
def ls(as_json: JsonOption = False) -> None:
    """List the installed integrations: what each can do, its distribution, and if the installation has an account."""
    from onceward.integration import integrations
    from onceward.services.services import Services

    services = Services()
    services.configure(settings_here())
    known = integrations()
    rows: list[dict[str, Any]] = [
        {
            "name": each.name,
            "title": each.title,
            "capabilities": list(each.capabilities),
            "from": known.distribution_of(each.name),
            "configured": services.is_set(each.name) if each.account else None,
        }
        for each in known.values()
    ]
    if not as_json:
        words = {True: "yes", False: "no", None: "needs no account"}
        for row in rows:
            row |= {"capabilities": ", ".join(row["capabilities"]), "configured": words[row["configured"]]}
    listing(rows, columns=COLUMNS, as_json=as_json)


@group.command("show")
def show(
    name: Annotated[str, typer.Argument(help="Name of the integration, as `onceward integrations ls` lists it.")],
) -> None:
    """Print the contract page of an integration: how to set it up, its events with a sample, our calls, and its
    settings."""
    from difflib import get_close_matches

    from onceward.integration import integrations
    from onceward.services.contract_page import contract_page

    if name not in integrations():
        near = get_close_matches(name, integrations(), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "`onceward integrations ls` lists them"
        raise CommandFailed(f"there is no integration {name!r}: {hint}", Exit.USAGE)
    say(contract_page(name).rstrip("\n"))
