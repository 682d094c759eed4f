"""FastAPI receives webhooks, Celery handles them through Redis.

A weaker promise than the others': the event is stored and then sent to Redis in a second step, Redis does not wait for
its disk, and a task is acknowledged before it runs, as both do by default. A crash loses events that were answered with
200. `serve URL SECRET REDIS` prints its port; `work URL REDIS` handles tasks until it is stopped.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import sys
import time
from contextlib import asynccontextmanager
from typing import Any

# A file beside this one has the name of a package that is imported here, so its directory must not be on the import
# path.
sys.path.pop(0)

import psycopg
import psycopg_pool
import uvicorn
import uvloop
from celery import Celery
from celery.signals import worker_process_init
from fastapi import FastAPI, HTTPException, Request

SCHEMA = "bench_webhooks_celery"
CONCURRENCY = 4
TABLES = f"""
drop schema if exists {SCHEMA} cascade;
create schema {SCHEMA};
create table {SCHEMA}.events (id bigserial primary key, event_id text not null unique, payload jsonb not null);
create table {SCHEMA}.effects (
    id bigserial primary key, event_id text not null, at timestamptz not null default clock_timestamp()
);
"""
STORE = f"insert into {SCHEMA}.events (event_id, payload) values (%s, %s) on conflict do nothing returning id"
EFFECT = f"insert into {SCHEMA}.effects (event_id) values (%s)"

queue = Celery("webhooks", broker=os.environ.get("BENCH_REDIS", "redis://127.0.0.1:6379/0"))
queue.conf.update(task_ignore_result=True, worker_hijack_root_logger=False)
CONNECTION: list[Any] = []


@worker_process_init.connect
def connect(**_: Any) -> None:
    CONNECTION[:] = [psycopg.connect(os.environ["BENCH_URL"], autocommit=True)]


@queue.task(name="handle")
def handle(event_id: str) -> None:
    CONNECTION[0].execute(EFFECT, (event_id,))


def api(url: str, secret: str) -> FastAPI:
    pool = psycopg_pool.AsyncConnectionPool(url, min_size=4, max_size=20, open=False)

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
            stored = await (await conn.execute(STORE, (event["id"], body.decode()))).fetchone()
        if stored is not None:
            handle.delay(event["id"])
        return {"status": "ok"}

    return app


async def serve(url: str, secret: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        await conn.execute(TABLES)
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(api(url, secret), log_config=None, access_log=False, http="httptools", loop="none")
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    command, url, *rest = sys.argv[1:]
    if command == "serve":
        uvloop.run(serve(url, *rest))
    else:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        options = (
            "--pool=prefork",
            f"--concurrency={CONCURRENCY}",
            "--loglevel=error",
            "--without-gossip",
            "--without-mingle",
        )
        queue.worker_main(["worker", *options])
