"""The measured server in its own process: `python -m benchmarks.live_server ours|bare URL`.

`ours` serves live queries. `bare` is what a user would write instead: a WebSocket server that forwards each message of
a client to all clients, without database, permissions or history.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any
from uuid import UUID

from benchmarks.sockets import allow_files
from onceward.app import Onceward
from onceward.cli.session import run
from onceward.db import Database
from onceward.engine import Engine
from onceward.live import Credentials, LiveNode, LiveOptions, Query
from onceward.settings import load_settings
from onceward.trust import Identity
from onceward.web import Dispatcher, WebServer
from onceward.web.asgi import Mount

ORGANIZATION = UUID(int=1)
MOST = 12_000


def bench_app() -> Onceward:
    """Return an app with one query by key, as a page of a shop would use it."""
    app = Onceward("bench")

    @app.query(allow="user")
    async def stock(q: Query, *, item: int) -> Any:
        q.watch("onceward_bench.stock", item=item)
        return await q.fetchrow("select item, left_over, at from onceward_bench.stock where item = $1", item)

    return app


async def ours(url: str) -> None:
    """Serve live queries as the runtime would."""
    db = await Database.open(url, min_size=2, max_size=8)
    app = bench_app()
    engine = Engine(db, app.registry)
    identity = Identity("token", ORGANIZATION, frozenset({"user"}), sub="bench")

    async def authenticate(_: Credentials) -> Identity:
        return identity

    options = LiveOptions(
        max_connections=MOST,
        max_connections_per_organization=MOST,
        max_connections_per_caller=MOST,
        max_groups_per_caller=MOST,
        max_messages_per_s=1000,
    )
    node = LiveNode(db, app.live, waker=engine.waker, options=options, authenticate=authenticate)

    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("only /live is served here")

    dispatcher = Dispatcher(nothing)
    dispatcher.mount(Mount("/live", node.endpoint))
    web = WebServer(dispatcher, load_settings(port=0))
    await engine.start()
    await node.start()
    await web.start()
    _say_port(web.port)
    await asyncio.Event().wait()


async def bare() -> None:
    """Serve a bare broadcast with the same WebSocket library."""
    from websockets.asyncio.server import ServerConnection, broadcast, serve
    from websockets.exceptions import ConnectionClosedError

    everyone: set[ServerConnection] = set()

    async def handle(connection: ServerConnection) -> None:
        everyone.add(connection)
        with contextlib.suppress(ConnectionClosedError):
            async for message in connection:
                broadcast(everyone, message)
        everyone.discard(connection)

    async with serve(handle, "127.0.0.1", 0, compression=None, backlog=2048) as server:
        _say_port(next(iter(server.sockets)).getsockname()[1])
        await asyncio.Event().wait()


def _say_port(port: int) -> None:
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    allow_files(MOST)
    run(bare() if sys.argv[1] == "bare" else ours(sys.argv[2]))
