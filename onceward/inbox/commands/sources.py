"""`sources` manages the senders of webhooks.

It reads secrets from a prompt, a file or standard input, and never shows them.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.moments import UNITS
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run, settings_here

if TYPE_CHECKING:
    from onceward.inbox.source_limits import RejectedRequests
    from onceward.inbox.sources import Listed

COLUMNS = ("name", "provider", "app", "mode", "url", "paused_at", "origin")
NO_SOURCES = "no source exists: `onceward sources add NAME --provider PROVIDER` adds one"

group = typer.Typer(
    no_args_is_help=True,
    help="Senders of webhooks: `add`, `ls`, `show`, `detect`, `assign`, `limit`, `rotate`, `pause`, `resume`.",
)

SecretOption = Annotated[
    str | None,
    typer.Option("--secret", help="The signing secret; `-` reads it from standard input. Without it, a prompt asks."),
]
SecretFile = Annotated[
    Path | None, typer.Option("--secret-file", exists=True, dir_okay=False, help="A file that contains the secret.")
]
PerSecond = Annotated[
    float | None,
    typer.Option(
        "--requests-per-s", help="Accept at most this many requests per second in each process; above it: 429."
    ),
]
AtOnce = Annotated[
    int | None,
    typer.Option("--requests-at-once", help="Accept at most this many requests at the same time; above it: 429."),
]
Name = Annotated[str, typer.Argument(help="Name of the source.")]


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="sources")


def read_secret(option: str | None, file: Path | None, *, needed: bool = True) -> str | None:
    """Read a secret from the option, the file, standard input, or a prompt if standard input is a terminal."""
    if file is not None:
        return file.read_text(encoding="utf-8").strip()
    if option == "-":
        return sys.stdin.readline().strip()
    if option is None and needed:
        if not sys.stdin.isatty():
            raise CommandFailed("no secret was given: use --secret, --secret - or --secret-file", Exit.USAGE)
        return typer.prompt("Signing secret", hide_input=True).strip()
    return option


def _row(source: Listed, base: str) -> dict[str, Any]:
    return {**asdict(source), "url": f"{base}/webhooks/{source.name}"}


@group.command("add")
def add(
    name: Name,
    provider: Annotated[str | None, typer.Option("--provider", "-p", help="Who sends. Default: the name.")] = None,
    secret: SecretOption = None,
    secret_file: SecretFile = None,
    mode: Annotated[str, typer.Option("--mode", help="ack, inline, external or forward.")] = "ack",
    organization: Annotated[
        str | None, typer.Option("--organization", "-o", help="Slug or id. Default: the platform.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", help="PATH=VALUE; the provider's page lists them.")
    ] = None,
    public_url: Annotated[
        str | None, typer.Option("--public-url", help="Our URL as the sender uses it (some senders sign it).")
    ] = None,
    ordering: Annotated[
        bool, typer.Option("--ordering", help="Handle events of one subject one after the other.")
    ] = False,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Handle at most this many events per second; others wait.")
    ] = None,
    requests_per_s: PerSecond = None,
    requests_at_once: AtOnce = None,
    max_body: Annotated[int, typer.Option("--max-body-bytes", help="Largest body that is accepted.")] = 1 << 20,
    retention: Annotated[int | None, typer.Option("--retention-days", help="Days to keep bodies.")] = None,
    app: Annotated[
        str | None,
        typer.Option("--app", help="The app whose handlers get the events. Default: the only app that handles them."),
    ] = None,
    unsigned: Annotated[bool, typer.Option("--no-secret", help="The sender has no secret (provider none).")] = False,
    as_json: JsonOption = False,
) -> None:
    """Add a source and print the URL to enter at the sender."""
    from onceward.webhooks.samples import parse_field

    chosen = provider or name
    secret_text = None if unsigned else read_secret(secret, secret_file, needed=_needs_secret(chosen))
    try:
        options = dict(parse_field(each) for each in option or ())
    except ValueError as error:
        raise CommandFailed(str(error), Exit.USAGE) from None

    async def work() -> Listed:
        from onceward.inbox import sources
        from onceward.trust import find_organization
        from onceward.trust.secrets import secret_box
        from onceward.webhooks.provider import ConfigError

        settings = settings_here()
        async with opened_database() as db, db.transaction(role="engine") as tx:
            owner = None if organization is None else await find_organization(tx.conn, organization)
            new = sources.NewSource(
                name=name,
                provider=chosen,
                secrets=(secret_text,) if secret_text else (),
                organization=None if owner is None else owner.organization_id,
                mode=mode,  # pyright: ignore[reportArgumentType]
                options=options,
                public_url=public_url or settings.public_url,
                ordering=ordering,
                rate_per_s=rate,
                requests_per_s=requests_per_s,
                requests_at_once=requests_at_once,
                max_body_bytes=max_body,
                retention_days=retention,
                app=app,
            )
            try:
                return await sources.add(tx, secret_box(settings), new, actor="operator:cli")
            except ConfigError as error:
                raise CommandFailed(str(error)) from None

    added = _row(run(work()), _base())
    if as_json:
        document(added)
        return
    say(f"{added['name']} is ready: {added['url']}")
    from onceward.webhooks import get_provider

    for warning in get_provider(chosen).warnings:
        say(f"note: {warning}")


@group.command("ls")
def ls(as_json: JsonOption = False) -> None:
    """List sources without their secrets."""

    async def work() -> list[Listed]:
        from onceward.inbox import sources

        async with opened_database() as db, db.acquire() as conn:
            return await sources.list_sources(conn)

    base = _base()
    listing([_row(each, base) for each in run(work())], columns=COLUMNS, as_json=as_json, empty=NO_SOURCES)


@group.command("show")
def show(name: Name, as_json: JsonOption = False) -> None:
    """Show a source with its limits, and how many of its requests were rejected in the last 24 hours, by reason."""

    async def work() -> tuple[Listed, list[RejectedRequests]]:
        from onceward.inbox import source_limits, sources

        async with opened_database() as db, db.acquire() as conn:
            source = await sources.find(conn, name)
            return source, await source_limits.rejected(conn, source.name)

    source, rejected = run(work())
    row = {**_row(source, _base()), "rejected": [asdict(each) for each in rejected]}
    if as_json:
        document(row)
        return
    for key, value in row.items():
        if key != "rejected":
            say(f"{key:18} {'-' if value is None else value}")
    columns = ("reason", "status", "requests", "last_at")
    listing(row["rejected"], columns=columns, as_json=False, empty="no request was rejected in the last 24 hours")


@group.command("limit")
def limit(name: Name, requests_per_s: PerSecond = None, requests_at_once: AtOnce = None) -> None:
    """Set how many requests of a source each process accepts. A limit that is not given is removed."""

    async def work() -> Listed:
        from onceward.inbox import source_limits
        from onceward.webhooks.provider import ConfigError

        async with opened_database() as db, db.transaction(role="engine") as tx:
            try:
                return await source_limits.limit(
                    tx, name, requests_per_s=requests_per_s, requests_at_once=requests_at_once, actor="operator:cli"
                )
            except ConfigError as error:
                raise CommandFailed(str(error)) from None

    source = run(work())
    per_s = "any number of" if source.requests_per_s is None else f"{source.requests_per_s:g}"
    at_once = "any number" if source.requests_at_once is None else source.requests_at_once
    say(f"{source.name}: each process accepts {per_s} requests per second, and {at_once} at the same time")


@group.command("rotate")
def rotate(
    name: Name,
    secret: SecretOption = None,
    secret_file: SecretFile = None,
    overlap: Annotated[
        str, typer.Option("--overlap", help="How long the old secret stays valid: 0s, 30m, 24h, 7d.")
    ] = "24h",
) -> None:
    """Add a new secret. The old ones stay valid for a while, so that no delivery is lost."""
    text = read_secret(secret, secret_file)

    async def work() -> int:
        from onceward.inbox import sources
        from onceward.trust.secrets import secret_box
        from onceward.webhooks.provider import ConfigError

        async with opened_database() as db, db.transaction(role="engine") as tx:
            try:
                box = secret_box(settings_here())
                live = await sources.rotate(tx, box, name, text or "", overlap=duration(overlap), actor="operator:cli")
            except ConfigError as error:
                raise CommandFailed(str(error)) from None
            return len(live)

    say(f"{name} has {run(work())} valid secrets; the old ones expire in {overlap}")


@group.command("detect")
def detect(
    capture: Annotated[
        str,
        typer.Argument(help="File with headers (`Name: value`), an empty line and the body; `-` reads standard input."),
    ],
    secret: SecretOption = None,
    secret_file: SecretFile = None,
    public_url: Annotated[
        str | None, typer.Option("--public-url", help="Our URL as the sender uses it (some senders sign it).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the sender, or the options of a generic source, that verify a captured request with a secret."""
    from onceward.webhooks.detect import advice, detect_capture
    from onceward.webhooks.provider import ConfigError

    try:
        text = sys.stdin.buffer.read() if capture == "-" else Path(capture).read_bytes()
    except OSError as error:
        raise CommandFailed(f"{capture} cannot be read: {error.strerror}", Exit.USAGE) from None
    try:
        found = detect_capture(text, read_secret(secret, secret_file) or "", public_url=public_url)
    except ConfigError as error:
        raise CommandFailed(str(error), Exit.USAGE) from None
    if as_json:
        document(asdict(found))
    else:
        for line in advice(found):
            say(line)
    if not found.matches:
        raise typer.Exit(Exit.FAILED)


@group.command("assign")
def assign(
    name: Name,
    app: Annotated[
        str | None, typer.Argument(help="Name of the app. Without it: the only app that handles them.")
    ] = None,
) -> None:
    """Let the handlers of one app get the events of a source, if several apps handle events of its provider."""

    async def work() -> Listed:
        from onceward.inbox import sources
        from onceward.webhooks.provider import ConfigError

        async with opened_database() as db, db.transaction(role="engine") as tx:
            try:
                return await sources.assign(tx, name, app, actor="operator:cli")
            except ConfigError as error:
                raise CommandFailed(str(error)) from None

    assigned = run(work())
    say(f"events of {assigned.name} go to {'the only app that handles them' if assigned.app is None else assigned.app}")


@group.command("pause")
def pause(name: Name) -> None:
    """Keep receiving events, but handle none of them until the source is resumed."""
    _set_paused(name, paused=True)


@group.command("resume")
def resume(name: Name) -> None:
    """Handle the events that waited while the source was paused, and the new ones."""
    _set_paused(name, paused=False)


@group.command("rm")
def remove(name: Name) -> None:
    """Delete a source and its secrets. Its events stay."""

    async def work() -> None:
        from onceward.inbox import sources
        from onceward.webhooks.provider import ConfigError

        async with opened_database() as db, db.transaction(role="engine") as tx:
            try:
                await sources.delete(tx, name, actor="operator:cli")
            except ConfigError as error:
                raise CommandFailed(str(error)) from None

    run(work())
    say(f"{name} was deleted")


def _set_paused(name: str, *, paused: bool) -> None:
    async def work() -> Listed:
        from onceward.inbox import sources

        async with opened_database() as db, db.transaction(role="engine") as tx:
            change = sources.pause if paused else sources.resume
            return await change(tx, name, actor="operator:cli")

    say(f"{run(work()).name} is {'paused' if paused else 'running'}")


def duration(text: str) -> timedelta:
    """Convert a duration such as `30m`."""
    if text[-1:] in UNITS and text[:-1].replace(".", "", 1).isdigit():
        return timedelta(**{UNITS[text[-1]]: float(text[:-1])})
    raise CommandFailed(f"{text!r} is not a duration: write it like 30s, 10m, 24h or 7d", Exit.USAGE)


def _base() -> str:

    return settings_here().url


def _needs_secret(provider: str) -> bool:
    from onceward.webhooks import PROVIDERS

    return provider not in PROVIDERS or PROVIDERS[provider].needs_secret
