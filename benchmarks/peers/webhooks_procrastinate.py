"""FastAPI receives webhooks, Procrastinate handles them: the task is deferred in the commit that stores the event.

`serve URL` prints its port; `work URL` handles tasks until it is stopped. Each task commits one row and its own end.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import sys
import time
from contextlib import asynccontextmanager
from typing import Any

# A file beside this one has the name of a package that is imported here, so its directory must not be on the import
# path.
sys.path.pop(0)

import psycopg_pool
import uvicorn
import uvloop
from fastapi import FastAPI, HTTPException, Request
from procrastinate import App, PsycopgConnector

SCHEMA = "bench_webhooks_procrastinate"
CONCURRENCY = 16
TABLES = f"""
create table {SCHEMA}.events (id bigserial primary key, event_id text not null unique, payload jsonb not null);
create table {SCHEMA}.effects (
    id bigserial primary key, event_id text not null, at timestamptz not null default clock_timestamp()
);
"""
STORE = f"insert into {SCHEMA}.events (event_id, payload) values (%s, %s) on conflict do nothing returning id"
DEFER = (
    "select procrastinate_defer_jobs_v1(array[row('default', 'handle', 0, null, null, %s::jsonb, "
    "null)::procrastinate_job_to_defer_v1])"
)
EFFECT = f"insert into {SCHEMA}.effects (event_id) values (%s)"


def connector(url: str, most: int) -> PsycopgConnector:
    # It has no setting for a schema: its documentation recommends the search path.
    return PsycopgConnector(conninfo=url, kwargs={"options": f"-c search_path={SCHEMA}"}, min_size=1, max_size=most)


async def install(url: str) -> None:
    import psycopg

    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        await conn.execute(f"drop schema if exists {SCHEMA} cascade")
        await conn.execute(f"create schema {SCHEMA}")
    app = App(connector=connector(url, 1))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        await conn.execute(TABLES)


def api(url: str, secret: str) -> FastAPI:
    pool = psycopg_pool.AsyncConnectionPool(
        url, kwargs={"options": f"-c search_path={SCHEMA}"}, min_size=4, max_size=20, open=False
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> Any:
        async with pool:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/webhooks/stripe")
    async def receive(request: Request) -> dict[str, str]:
        body = await request.body()
        parts = dict(part.split("=", 1) for part in request.headers["stripe-signature"].split(","))
        expected = hmac.new(secret.encode(), parts["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(expected, parts["v1"]) or abs(time.time() - int(parts["t"])) > 300:
            raise HTTPException(400, "bad signature")
        event = json.loads(body)
        async with pool.connection() as conn:
            stored = await conn.execute(STORE, (event["id"], body.decode()))
            if await stored.fetchone() is not None:
                await conn.execute(DEFER, (json.dumps({"event_id": event["id"]}),))
        return {"status": "ok"}

    return app


async def serve(url: str, secret: str) -> None:
    await install(url)
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(api(url, secret), log_config=None, access_log=False, http="httptools", loop="none")
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    await uvicorn.Server(config).serve(sockets=[listener])


async def work(url: str) -> None:
    app = App(connector=connector(url, CONCURRENCY + 4))
    pool = psycopg_pool.AsyncConnectionPool(url, min_size=4, max_size=CONCURRENCY, open=False)

    @app.task(name="handle")
    async def handle(event_id: str) -> None:
        async with pool.connection() as conn:
            await conn.execute(EFFECT, (event_id,))

    async with pool, app.open_async():
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="successful")


if __name__ == "__main__":
    command, url, *rest = sys.argv[1:]
    uvloop.run(serve(url, *rest) if command == "serve" else work(url))
