"""`trigger` sends a correctly signed test webhook, one that must be rejected, or many per second."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, document, say, warn
from onceward.cli.session import opened_database, run, settings_here
from onceward.inbox.commands.sources import duration
from onceward.statements import read_statement

if TYPE_CHECKING:
    from onceward.inbox.signed_samples import Outgoing
    from onceward.webhooks.provider import SourceConfig

MOST_IN_FLIGHT = 256


@dataclass(slots=True)
class TriggerTally:
    """The answers to a burst of requests."""

    sent: int = 0
    statuses: Counter[str] = field(default_factory=Counter[str])
    times_ms: list[float] = field(default_factory=list[float])

    def shown(self, seconds: float) -> dict[str, Any]:
        times = sorted(self.times_ms) or [0.0]
        return {
            "sent": self.sent,
            "per_s": round(self.sent / seconds, 1),
            "statuses": dict(self.statuses),
            "p50_ms": round(times[len(times) // 2], 1),
            "p99_ms": round(times[min(len(times) - 1, int(len(times) * 0.99))], 1),
        }


def register(cli: typer.Typer) -> None:
    cli.command("trigger")(trigger)


def trigger(
    provider: Annotated[str, typer.Argument(help="Provider to simulate: stripe, paypal, github, ...")],
    type: Annotated[str, typer.Argument(help="Event type, for example charge.succeeded.")],
    field: Annotated[list[str] | None, typer.Option("--field", "-f", help="PATH=VALUE to set in the payload.")] = None,
    duplicate: Annotated[bool, typer.Option("--duplicate", help="Send the same event twice.")] = False,
    stale: Annotated[bool, typer.Option("--stale", help="Sign with an expired time: it must be rejected.")] = False,
    bad_signature: Annotated[
        bool, typer.Option("--bad-signature", help="Change it after signing: it must be rejected.")
    ] = False,
    rate: Annotated[float | None, typer.Option("--rate", min=0.1, help="Send this many per second.")] = None,
    for_: Annotated[str, typer.Option("--for", help="How long to send with --rate: 30s, 5m.")] = "10s",
    source: Annotated[
        str | None, typer.Option("--source", "-s", help="Name of the source. Default: the provider.")
    ] = None,
    secret: Annotated[
        str | None, typer.Option("--secret", help="Sign with this secret instead of the source's.")
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="Post to this URL instead of this installation.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Send a signed test webhook to this installation. Exit with 1 if the answer is not the expected one."""
    from onceward.inbox.signed_samples import compose
    from onceward.webhooks.provider import ConfigError
    from onceward.webhooks.samples import parse_field

    name = source or provider
    try:
        fields = dict(parse_field(each) for each in field or ())
        config = _config(provider, name, secret, url)
        where = url or _default_url(name)

        def make() -> Outgoing:
            return compose(config, type, fields=fields, path=_path(where), stale=stale, bad_signature=bad_signature)

        make()
    except (ConfigError, ValueError) as problem:
        raise CommandFailed(str(problem), Exit.USAGE) from None
    if rate is not None:
        answer = run(_burst(where, make, rate, duration(for_).total_seconds()))
        document(answer) if as_json else say(", ".join(f"{key} {value}" for key, value in answer.items()))
        return
    answers = run(_send(where, [make()] if not duplicate else [request := make(), request]))
    for answer in answers:
        document(answer) if as_json else say(f"{answer['status']} in {answer['ms']} ms: {answer['body']}")
    if url is None and answers[-1]["status"] // 100 == 2 and run(_is_unhandled(name, type)):
        warn(
            f'no handler of a running app takes it: write @app.on("{name}", "{type}"), and start the app. '
            f"The event is kept: `onceward events replay --type {type} --unhandled`",
        )
    refused = stale or bad_signature
    if any((answer["status"] // 100 == 4) != refused or answer["status"] >= 500 for answer in answers):
        raise typer.Exit(Exit.FAILED)


def _config(provider: str, name: str, secret: str | None, url: str | None) -> SourceConfig:
    """Return the source's configuration in this installation. A secret from the command line replaces the stored
    one."""
    from onceward.webhooks.provider import SourceConfig

    settings = settings_here()
    if secret is not None and url is not None and settings.database_url is None:
        # Only another installation is involved: its public URL is the origin of --url.
        return SourceConfig(provider=provider, secrets=(secret,), public_url=_origin(url))

    async def work() -> SourceConfig:
        from onceward.inbox.commands.events import read_catalog

        async with opened_database() as db:
            source = (await read_catalog(db)).get(name)
            if secret is not None and (source is None or source.provider.name != provider):
                return SourceConfig(provider=provider, secrets=(secret,), public_url=_origin(url) or settings.url)
            if secret is not None and source is not None:
                return replace(source.config, secrets=(secret,))
            if source is None:
                raise CommandFailed(
                    f"there is no usable source {name!r}: run `onceward sources add {name} --provider {provider}`, or "
                    f"give --secret"
                )
            if source.provider.name != provider:
                raise CommandFailed(f"source {name!r} has provider {source.provider.name}, not {provider}", Exit.USAGE)
            return source.config

    return run(work())


async def _is_unhandled(source: str, type: str) -> bool:
    """Return whether the newest event of this type waits because no app has a handler for it."""
    async with opened_database() as db:
        return bool(await db.fetchval(read_statement("inbox", "is_unhandled"), source, type))


def _default_url(name: str) -> str:

    settings = settings_here()
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    return f"http://{host}:{settings.port}/webhooks/{name}"


def _origin(url: str | None) -> str | None:
    from urllib.parse import urlsplit

    if url is None:
        return None
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _path(url: str) -> str:
    from urllib.parse import urlsplit

    return urlsplit(url).path


def _full(url: str, request: Outgoing) -> str:
    """Return the URL with the query of the request: a few senders sign there."""
    return f"{url}?{request.query}" if request.query else url


async def _send(url: str, requests: list[Outgoing]) -> list[dict[str, Any]]:
    from onceward.http import HttpError, ServiceClient

    answers: list[dict[str, Any]] = []
    async with ServiceClient(timeout_s=30) as client:
        for each in requests:
            try:
                answer = await client.request("POST", _full(url, each), headers=dict(each.headers), body=each.body)
            except HttpError as problem:
                raise CommandFailed(f"{url} does not answer: {problem}; is `onceward up` running?") from None
            text = answer.body.decode(errors="replace")
            answers.append({"status": answer.status, "ms": answer.elapsed_ms, "body": text})
    return answers


async def _burst(url: str, make: Any, rate: float, for_s: float) -> dict[str, Any]:
    """Send at an even rate, with at most `MOST_IN_FLIGHT` open requests if the server is slower than that."""
    import asyncio

    from onceward.http import HttpError, ServiceClient

    tally = TriggerTally()
    slots = asyncio.Semaphore(MOST_IN_FLIGHT)
    async with ServiceClient(timeout_s=30, concurrency=MOST_IN_FLIGHT) as client, asyncio.TaskGroup() as group:

        async def send(each: Outgoing) -> None:
            try:
                answer = await client.request("POST", _full(url, each), headers=dict(each.headers), body=each.body)
                tally.statuses[str(answer.status)] += 1
                tally.times_ms.append(answer.elapsed_ms)
            except HttpError as problem:
                tally.statuses[type(problem).__name__] += 1
            finally:
                slots.release()

        began = time.perf_counter()
        while (passed := time.perf_counter() - began) < for_s:
            await slots.acquire()
            group.create_task(send(make()))
            tally.sent += 1
            await asyncio.sleep(max(0.0, tally.sent / rate - passed))
    return tally.shown(time.perf_counter() - began)
