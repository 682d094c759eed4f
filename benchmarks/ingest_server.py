"""Start one of the servers that `bench ingest` compares, all with the same uvicorn settings.

`python -m benchmarks.ingest_server ours|fastapi_sqlalchemy|empty DATABASE_URL` prints its port and serves until it is
stopped.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from importlib import import_module
from typing import Any

import uvicorn
import uvloop

from onceward.cli.session import spare_collector
from onceward.web import Dispatcher
from onceward.web.edge import Edge
from onceward.web.protocol import protocol

TABLE = """
create schema if not exists onceward_bench;
create table if not exists onceward_bench.webhook_events (
    id bigserial primary key, provider text not null, event_id text not null, type text not null,
        payload jsonb not null,
    status text not null default 'pending', received_at timestamptz not null default now(), unique (provider, event_id)
)
"""


async def serve(app: Any, listener: socket.socket) -> None:
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        http=protocol(app, Edge()) if isinstance(app, Dispatcher) else "httptools",  # ours uses the shipped protocol
        loop="none",
        server_header=False,
        proxy_headers=True,
        forwarded_allow_ips=["127.0.0.1"],
    )
    spare_collector()
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    await uvicorn.Server(config).serve(sockets=[listener])


async def main(which: str, url: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    await serve(await import_module(f"benchmarks.servers.{which}").make(url), listener)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1], sys.argv[2]))
