"""The Python package calls a real server: pages, retries, idempotency keys, errors, a worker and webhooks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import httpx
import pytest
from standardwebhooks import Webhook

from onceward.db import Database
from onceward.process.process import Process
from onceward_client import AsyncClient, Client, JobContext, OncewardError, Permanent, VerificationFailed, Worker
from onceward_client.models import ClaimedJob
from onceward_client.webhooks import verify_webhook
from tests.web.operating import client_for, started
from tests.work.test_external_jobs import make_app

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    process = await started(database_url, roles={"web", "worker"}, app=make_app())
    yield process
    await process.stop()


@pytest.fixture
async def key(db: Database, process: Process) -> str:
    assert process.web is not None
    async with aiohttp.ClientSession(process.web.url) as session:
        return (await client_for(db, session, "ours", "owner")).key


def url_of(process: Process) -> str:
    assert process.web is not None
    return process.web.url


async def test_it_enqueues_lists_all_pages_and_names_the_wrong_field(process: Process, key: str) -> None:
    async with AsyncClient(url_of(process), key=key) as client:
        for n in range(5):
            made = await client.jobs.create(body={"task": "resize", "args": {"image": f"{n}.png"}})
            assert not made["duplicate"]
        assert [each["id"] async for each in client.jobs.iterate(limit=2)] == sorted(
            [each["id"] for each in await client.jobs.list_(limit=5)], reverse=True
        )
        assert len(await client.call("jobs.list", limit=2)) == 2
        with pytest.raises(OncewardError, match=r"422 body\.args\.image") as refused:
            await client.jobs.create(body={"task": "resize", "args": {}})
        assert (refused.value.status, refused.value.errors[0]["field"]) == (422, "body.args.image")

    def synchronous() -> list[int]:
        with Client(url_of(process), key=key) as client:
            return [each["id"] for each in client.jobs.iterate(limit=2)]

    assert len(await asyncio.to_thread(synchronous)) == 5


async def test_a_post_that_lost_its_answer_is_repeated_and_has_one_effect(
    db: Database, process: Process, key: str
) -> None:
    class LosesAnswers(httpx.AsyncHTTPTransport):
        """The request arrives, its answer is lost; then a proxy answers."""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            sent.append(request.headers.get("idempotency-key", ""))
            response = await super().handle_async_request(request)
            if len(sent) == 1:
                await response.aread()
                raise httpx.ReadError("cut", request=request)
            return httpx.Response(503, headers={"retry-after": "0"}) if len(sent) == 2 else response

    sent: list[str] = []
    http = httpx.AsyncClient(transport=LosesAnswers())
    async with AsyncClient(url_of(process), key=key, http=http) as client:
        made = await client.jobs.create(body={"task": "resize", "args": {"image": "a.png"}})
    assert len(sent) == 3
    assert len(set(sent)) == 1
    assert await db.fetchval("select array_agg(id) from onceward.jobs where task = 'resize'") == [made["id"]]


async def test_its_worker_runs_jobs_and_stops(db: Database, process: Process, key: str) -> None:
    async with AsyncClient(url_of(process), key=key) as client:
        ids = [
            (await client.jobs.create(body={"task": "resize", "args": {"image": name}}))["id"]
            for name in ("good.png", "bad.png")
        ]

        async def resize(job: ClaimedJob, context: JobContext) -> dict[str, Any]:
            await context.checkpoint({"seen": job["id"]})
            if job["args"]["image"] == "bad.png":
                raise Permanent("it is broken")
            return {"url": "b.png"}

        worker = Worker(client, {"resize": resize}, concurrency=2, wait_s=1)
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(20):
            while len(await db.fetch("select 1 from onceward.attempts where task = 'resize'")) < 2:
                await asyncio.sleep(0.02)
            worker.stop()
            await running
    rows = await db.fetch("select work_id, outcome from onceward.attempts where task = 'resize' order by work_id")
    assert [tuple(row) for row in rows] == list(zip(ids, ("success", "dead_letter"), strict=True))


def test_it_verifies_what_standard_webhooks_signs_and_refuses_the_rest() -> None:
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    body = '{"type": "order.paid"}'
    headers = {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(int(now.timestamp())),
        "Webhook-Signature": Webhook(SECRET).sign("msg_1", now, body),
    }
    assert verify_webhook(body, headers, ["whsec_b2xk", SECRET]) == {"type": "order.paid"}
    for wrong in (
        {**headers, "Webhook-Id": "msg_2"},
        {**headers, "Webhook-Timestamp": "soon"},
        {**headers, "Webhook-Signature": "v1,x"},
        {name: value for name, value in headers.items() if name != "Webhook-Id"},
    ):
        with pytest.raises(VerificationFailed):
            verify_webhook(body, wrong, SECRET)
    with pytest.raises(VerificationFailed, match="too old"):
        verify_webhook(body, headers, SECRET, now=time.time() + 301)
    with pytest.raises(VerificationFailed):
        verify_webhook(body + " ", headers, SECRET)
