"""`listen`: a local receiver that verifies webhooks and prints them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import say
from onceward.cli.session import run

if TYPE_CHECKING:
    from aiohttp import web


def register(cli: typer.Typer) -> None:
    cli.command("listen")(listen)


def listen(
    secret: Annotated[
        str | None,
        typer.Option("--secret", help="Signing secret (`whsec_...`); without it signatures are not verified."),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port on loopback; 0 selects a free port.")
    ] = 8401,
    status: Annotated[
        int, typer.Option("--status", min=200, max=599, help="Status of the response to a valid request.")
    ] = 200,
    once: Annotated[
        bool, typer.Option("--once", help="Stop after one request; exit with 1 if its signature is invalid.")
    ] = False,
) -> None:
    """Receive webhooks on this machine, verify their signatures and print them."""
    try:
        receiver = ListenReceiver(secret, status=status)
    except ValueError as error:
        raise CommandFailed(f"--secret: {error}", Exit.USAGE) from None
    run(_serve(receiver, port, once=once))
    if once and receiver.refused:
        raise typer.Exit(Exit.FAILED)


class ListenReceiver:
    """Verifies webhooks with the same code as the inbox."""

    def __init__(self, secret: str | None, *, status: int = 200) -> None:
        from onceward.webhooks.provider import ConfigError, SourceConfig

        try:
            self._config = None if secret is None else SourceConfig(provider="standard", secrets=(secret,))
        except ConfigError as error:
            raise ValueError(str(error)) from None
        self._status = status
        self.seen: dict[str, int] = {}
        self.refused = 0

    async def receive(self, request: web.Request) -> web.Response:
        from aiohttp import web

        body = await request.read()
        problem = self._problem(request, body)
        message_id = request.headers.get("webhook-id", "without id")
        self.seen[message_id] = self.seen.get(message_id, 0) + 1
        again = f" (arrived {self.seen[message_id]} times)" if self.seen[message_id] > 1 else ""
        verdict = "not verified" if self._config is None else problem or "signature valid"
        say(
            f"{time.strftime('%H:%M:%S')}  {request.headers.get('X-Webhook-Event', '?')}  "
            f"{message_id}{again}  {verdict}"
        )
        say(f"          {body.decode('utf-8', 'replace')}")
        if problem is not None:
            self.refused += 1
            return web.Response(status=401, text=problem)
        return web.Response(status=self._status, text="ok")

    def _problem(self, request: web.Request, body: bytes) -> str | None:
        from onceward.webhooks.provider import Rejected, Request
        from onceward.webhooks.registry import get_provider

        if self._config is None:
            return None
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = Request(method="POST", url_path=request.path, query="", headers=headers, body=body)
        try:
            get_provider("standard").verify(self._config, received, time.time())
        except Rejected as refusal:
            return f"refused: {refusal}"
        return None


async def _serve(receiver: ListenReceiver, port: int, *, once: bool) -> None:
    import asyncio

    from aiohttp import web

    ended = asyncio.Event()

    async def handle(request: web.Request) -> web.Response:
        reply = await receiver.receive(request)
        if once:
            asyncio.get_running_loop().call_later(0.2, ended.set)
        return reply

    app = web.Application(client_max_size=4 << 20)
    app.router.add_post("/{path:.*}", handle)
    runner: Any = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        say(
            f"listening on http://127.0.0.1:{runner.addresses[0][1]}/ (set ONCEWARD_ALLOW_LOOPBACK_ENDPOINTS=true "
            f"to send here)"
        )
        await ended.wait()
    except OSError as error:
        raise CommandFailed(f"cannot listen on port {port}: {error.strerror}; choose another with --port") from error
    finally:
        await runner.cleanup()
