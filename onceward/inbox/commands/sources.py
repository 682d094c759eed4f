"""`sources`: who may send webhooks. Secrets are read from a prompt, a file or standard input, and never shown."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run
from onceward.work.commands.dead_letters import UNITS

if TYPE_CHECKING:
    from onceward.inbox.sources import Listed

COLUMNS = ("name", "provider", "mode", "url", "paused_at", "origin")

group = typer.Typer(no_args_is_help=True, help="Senders of webhooks: `add`, `ls`, `rotate`, `pause`, `resume`.")

SecretOption = Annotated[
    str | None,
    typer.Option("--secret", help="The signing secret; `-` reads it from standard input. Asked for if not given."),
]
SecretFile = Annotated[
    Path | None, typer.Option("--secret-file", exists=True, dir_okay=False, help="A file that holds it.")
]
Name = Annotated[str, typer.Argument(help="Name of the source.")]


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="sources")


def read_secret(given: str | None, file: Path | None, *, needed: bool = True) -> str | None:
    """From where the user said; a prompt only on a terminal."""
    if file is not None:
        return file.read_text(encoding="utf-8").strip()
    if given == "-":
        return sys.stdin.readline().strip()
    if given is None and needed:
        if not sys.stdin.isatty():
            raise CommandFailed("say --secret, --secret -, or --secret-file", Exit.USAGE)
        return typer.prompt("Signing secret", hide_input=True).strip()
    return given


def _row(source: Listed, base: str) -> dict[str, Any]:
    return {**asdict(source), "url": f"{base}/webhooks/{source.name}"}


@group.command("add")
def add(
    name: Name,
    provider: Annotated[str | None, typer.Option("--provider", "-p", help="Who sends; the name if not given.")] = None,
    secret: SecretOption = None,
    secret_file: SecretFile = None,
    mode: Annotated[str, typer.Option("--mode", help="ack, inline or external.")] = "ack",
    organization: Annotated[
        str | None, typer.Option("--organization", "-o", help="Slug or id; none: the platform's.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", help="PATH=VALUE, as the provider's page says.")
    ] = None,
    public_url: Annotated[
        str | None, typer.Option("--public-url", help="How the sender reaches us (Twilio signs it).")
    ] = None,
    ordering: Annotated[
        bool, typer.Option("--ordering", help="Events about the same thing one after the other.")
    ] = False,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Handle at most so many per second; the rest waits.")
    ] = None,
    max_body: Annotated[int, typer.Option("--max-body-bytes", help="Largest body that is read.")] = 1 << 20,
    retention: Annotated[int | None, typer.Option("--retention-days", help="Keep bodies for so long.")] = None,
    unsigned: Annotated[bool, typer.Option("--no-secret", help="For senders without one (provider none).")] = False,
    as_json: JsonOption = False,
) -> None:
    """Add a source and print the URL to enter at the sender."""
    from onceward.providers.inbound.samples import parse_field

    chosen = provider or name
    secret_text = None if unsigned else read_secret(secret, secret_file, needed=chosen != "paypal")
    try:
        options = dict(parse_field(each) for each in option or ())
    except ValueError as error:
        raise CommandFailed(str(error), Exit.USAGE) from None

    async def work() -> Listed:
        from onceward.inbox import sources
        from onceward.providers.inbound.provider import ConfigError
        from onceward.settings import load_settings
        from onceward.trust import find_organization
        from onceward.trust.secrets import secret_box

        settings = load_settings()
        async with opened_database() as db, db.transaction(role="engine") as tx:
            found = None if organization is None else await find_organization(tx.conn, organization)
            new = sources.NewSource(
                name=name,
                provider=chosen,
                secrets=(secret_text,) if secret_text else (),
                organization=None if found is None else found.organization_id,
                mode=mode,  # pyright: ignore[reportArgumentType]
                options=options,
                public_url=public_url or settings.public_url,
                ordering=ordering,
                rate_per_s=rate,
                max_body_bytes=max_body,
                retention_days=retention,
            )
            try:
                return await sources.add(tx, secret_box(settings), new, actor="operator:cli")
            except ConfigError as error:
                raise CommandFailed(str(error)) from None

    made = _row(run(work()), _base())
    if as_json:
        document(made)
    else:
        say(f"{made['name']} is ready: {made['url']}")


@group.command("ls")
def ls(as_json: JsonOption = False) -> None:
    """List sources; their secrets are not shown."""

    async def work() -> list[Listed]:
        from onceward.inbox import sources

        async with opened_database() as db, db.acquire() as conn:
            return await sources.list_sources(conn)

    base = _base()
    listing([_row(each, base) for each in run(work())], columns=COLUMNS, as_json=as_json)


@group.command("rotate")
def rotate(
    name: Name,
    secret: SecretOption = None,
    secret_file: SecretFile = None,
    overlap: Annotated[
        str, typer.Option("--overlap", help="How long the old secret is still believed: 0s, 30m, 24h, 7d.")
    ] = "24h",
) -> None:
    """Add a new secret; the old ones are believed for a while, so that no delivery is lost."""
    text = read_secret(secret, secret_file)

    async def work() -> int:
        from onceward.inbox import sources
        from onceward.providers.inbound.provider import ConfigError
        from onceward.settings import load_settings
        from onceward.trust.secrets import secret_box

        async with opened_database() as db, db.transaction(role="engine") as tx:
            try:
                box = secret_box(load_settings())
                live = await sources.rotate(tx, box, name, text or "", overlap=duration(overlap), actor="operator:cli")
            except ConfigError as error:
                raise CommandFailed(str(error)) from None
            return len(live)

    say(f"{name} has {run(work())} live secrets; the old ones end in {overlap}")


@group.command("pause")
def pause(name: Name) -> None:
    """Go on receiving, handle nothing: what arrives is parked."""
    _set_paused(name, paused=True)


@group.command("resume")
def resume(name: Name) -> None:
    """Handle what was parked."""
    _set_paused(name, paused=False)


@group.command("rm")
def remove(name: Name) -> None:
    """Take nothing more from a source and forget its secrets; its events stay."""

    async def work() -> None:
        from onceward.inbox import sources
        from onceward.providers.inbound.provider import ConfigError

        async with opened_database() as db, db.transaction(role="engine") as tx:
            try:
                await sources.delete(tx, name, actor="operator:cli")
            except ConfigError as error:
                raise CommandFailed(str(error)) from None

    run(work())
    say(f"{name} is deleted")


def _set_paused(name: str, *, paused: bool) -> None:
    async def work() -> Listed:
        from onceward.inbox import sources

        async with opened_database() as db, db.transaction(role="engine") as tx:
            change = sources.pause if paused else sources.resume
            return await change(tx, name, actor="operator:cli")

    say(f"{run(work()).name} is {'paused' if paused else 'running'}")


def duration(text: str) -> timedelta:
    """`30m` as a span of time."""
    if text[-1:] in UNITS and text[:-1].replace(".", "", 1).isdigit():
        return timedelta(**{UNITS[text[-1]]: float(text[:-1])})
    raise CommandFailed(f"{text!r} is not a span of time like 30s, 10m, 24h or 7d", Exit.USAGE)


def _base() -> str:
    from onceward.settings import load_settings

    return load_settings().url
