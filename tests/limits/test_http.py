"""A reached limit over HTTP."""

from __future__ import annotations

import httpx
from fastapi import APIRouter

from onceward import Engine, Onceward
from onceward.db import Database
from onceward.health import Health
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.web import create_api

app = Onceward("limited")


@app.job
async def generate() -> None: ...


async def test_reached_limit_answers_429_and_leaves_no_job(db: Database) -> None:
    engine = Engine(db, app.registry)
    router = APIRouter()

    @router.post("/generate")
    async def start() -> dict[str, int]:
        async with engine.transaction() as tx:
            job = await tx.enqueue(generate)
            await tx.reserve(job, key="user:1", at_most=1)
        return {"id": job.id}

    api = create_api(
        error_handlers=FEATURES.load("error_handlers"),
        settings=Settings(),
        database=db,
        engine=engine,
        health=Health(),
        version="t",
        routers=[router],
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://test") as client:
        assert (await client.post("/generate")).status_code == 200
        refused = await client.post("/generate")
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "5"
    assert "1 of 1" in refused.json()["detail"]
    assert await db.fetchval("select count(*) from onceward.jobs") == 1
    await engine.stop()
    assert await db.fetchval("select event_type from onceward.system_metrics") == "concurrency_limit_hit"
