"""The commands `templates ls|check|preview`: show the texts of messages before they are sent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from onceward.cli.app_loader import AppOption, load_app
from onceward.cli.exits import CommandFailed
from onceward.cli.rendering import JsonOption, listing, say
from onceward.cli.session import settings_here

if TYPE_CHECKING:
    from onceward.messages import Templates

group = typer.Typer(no_args_is_help=True, help="List, check and preview the templates of messages.")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="templates")


def _templates(app: str | None) -> Templates:
    from onceward.messages import BadTemplate, Templates

    try:
        return Templates(load_app(app).registry.template_folders)
    except BadTemplate as error:
        raise CommandFailed(str(error)) from None


@group.command("ls")
def ls(app: AppOption = None, as_json: JsonOption = False) -> None:
    """List all templates with their languages, category, retry policy, channel and version."""
    rows = [
        {
            "name": each.name,
            "locales": ", ".join(sorted(each.locales)),
            "category": each.category,
            "policy": each.policy,
            "channel": each.channel,
            "version": each.version,
        }
        for each in _templates(app)
    ]
    columns = ("name", "locales", "category", "policy", "channel", "version")
    listing(rows, columns=columns, as_json=as_json, empty="no templates")


@group.command("check")
def check(app: AppOption = None) -> None:
    """Find missing translations and variables, as the start of a worker does. Exits with 1 if there are any."""
    from onceward.messages import BadTemplate
    from onceward.messages.template_check import check_templates

    templates = _templates(app)
    try:
        check_templates(templates)
    except BadTemplate as error:
        raise CommandFailed(str(error)) from None
    say(f"{len(list(templates))} templates can be rendered in all their languages")


@group.command("preview")
def preview(
    name: Annotated[str, typer.Argument(help="Name of the template.")],
    locale: Annotated[
        str | None, typer.Option(help="Language such as pt-BR; falls back to pt, then to the default language.")
    ] = None,
    channel: Annotated[str, typer.Option(help="Show the text for this channel.")] = "email",
    data: Annotated[
        Path | None, typer.Option(help="JSON file with the data; default: the template's sample.json.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the HTML of the mail to this file.")] = None,
    app: AppOption = None,
) -> None:
    """Show a template as it would be sent."""
    from onceward.messages import render
    from onceward.messages.settings import MessagesSettings
    from onceward.work import PayloadInvalid

    settings = settings_here().of(MessagesSettings)
    try:
        template = _templates(app).get(name)
        values: dict[str, Any] = dict(template.sample) if data is None else orjson.loads(data.read_bytes())
        rendered = render(
            template,
            values,
            locale=locale,
            default_locale=settings.default_locale,
            channel=channel,
            brand=settings.brand,
        )
    except PayloadInvalid as error:
        raise CommandFailed(str(error)) from None
    if html is not None:
        html.write_text(rendered.html, encoding="utf-8")
        say(f"written to {html}")
        return
    say(f"[{rendered.locale}] {rendered.subject}")
    say("")
    say(rendered.text)
