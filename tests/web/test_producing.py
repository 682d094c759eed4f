"""Programs enqueue jobs, start workflows and send messages over HTTP, typed by the schema of what they call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from pydantic import BaseModel

from onceward import Onceward, Tx, Workflow
from onceward.cli.types import type_declarations
from onceward.db import Database
from onceward.process.process import Process
from tests.web.operating import Client, client_for, started


class Line(BaseModel):
    article: str
    count: int = 1


def make_app() -> Onceward:
    app = Onceward("shop")

    @app.job(over_http=True)
    async def pack(tx: Tx, *, order: int, lines: list[Line] | None = None) -> Line:  # pyright: ignore[reportUnusedFunction]
        """Pack an order."""
        return Line(article="box")

    @app.job
    async def refund(tx: Tx, *, order: int) -> None:  # pyright: ignore[reportUnusedFunction]
        """Not offered: an operator must not pay out with arguments of their own."""

    @app.workflow(over_http=True)
    async def ship(wf: Workflow, *, order: int) -> None:  # pyright: ignore[reportUnusedFunction]
        """Ship an order."""

    return app


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    process = await started(database_url, roles={"web"}, app=make_app())
    yield process
    await process.stop()


@pytest.fixture
async def session(process: Process) -> AsyncIterator[aiohttp.ClientSession]:
    assert process.web is not None
    async with aiohttp.ClientSession(process.web.url) as session:
        yield session


async def test_a_job_is_enqueued_once_for_the_organization_of_the_key(
    db: Database, session: aiohttp.ClientSession
) -> None:
    ours = await client_for(db, session, "ours", "enqueue")
    theirs = await client_for(db, session, "theirs", "enqueue")
    new = {"task": "pack", "args": {"order": 7, "lines": [{"article": "book"}]}, "unique_key": "order:7"}
    status, first = await ours("POST", "/jobs", new)
    assert (status, first["duplicate"]) == (201, False)
    assert await ours("POST", "/jobs", new) == (200, {"id": first["id"], "duplicate": True})
    assert (await theirs("POST", "/jobs", new))[0] == 201, "keys belong to an organization"
    row = await db.fetchrow("select * from onceward.jobs where id = $1", first["id"])
    assert row is not None
    assert (row["organization_id"], row["task"]) == (ours.organization, "pack")
    assert row["args"] == {"order": 7, "lines": [{"article": "book", "count": 1}]}
    # An idempotency key covers the whole request, also one with a job that has ended.
    plain = {"task": "pack", "args": {"order": 8}, "delay_s": 60, "tags": ["shop"], "lane": "a", "max_attempts": 2}
    one, two = [await ours("POST", "/jobs", plain, key="request-1") for _ in range(2)]
    assert one == two
    assert (await ours("POST", "/jobs", {**plain, "tags": []}, key="request-1"))[0] in (409, 422)
    due = await db.fetchval("select sort_at from onceward.work where id = $1", one[1]["id"])
    assert due > datetime.now(UTC) + timedelta(seconds=30)


async def test_many_jobs_are_enqueued_all_or_none(db: Database, session: aiohttp.ClientSession) -> None:
    ours = await client_for(db, session, "ours", "enqueue")
    jobs: list[dict[str, Any]] = [{"task": "pack", "args": {"order": n}} for n in range(3)]
    status, made = await ours("POST", "/jobs/many", {"jobs": jobs})
    assert (status, len({each["id"] for each in made["jobs"]})) == (201, 3)
    status, refused = await ours("POST", "/jobs/many", {"jobs": [*jobs, {"task": "pack", "args": {"order": "x"}}]})
    assert (status, refused["errors"][0]["field"]) == (422, "body.jobs.3.args.order")
    assert await db.fetchval("select count(*) from onceward.jobs") == 3


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown task": ("/jobs", {"task": "pakc", "args": {}}, "body.task"),
    "a job that is not offered": ("/jobs", {"task": "refund", "args": {"order": 1}}, "body.task"),
    "a workflow as a job": ("/jobs", {"task": "workflow:ship", "args": {"order": 1}}, "body.task"),
    "unknown argument": ("/jobs", {"task": "pack", "args": {"order": 1, "colour": "red"}}, "body.args.colour"),
    "missing argument": ("/jobs", {"task": "pack"}, "body.args.order"),
    "inner field": (
        "/jobs",
        {"task": "pack", "args": {"order": 1, "lines": [{"article": 1}]}},
        "body.args.lines.0.article",
    ),
    "both times": (
        "/jobs",
        {"task": "pack", "args": {"order": 1}, "delay_s": 1, "run_at": "2031-01-01T00:00:00Z"},
        "body.delay_s",
    ),
    "unknown option": ("/jobs", {"task": "pack", "args": {"order": 1}, "queue": "mail"}, "body.queue"),
    "unknown workflow": ("/workflows", {"name": "pack", "args": {"order": 1}}, "body.name"),
    "argument of a workflow": ("/workflows", {"name": "ship", "args": {"order": []}}, "body.args.order"),
    "unknown template": ("/messages", {"template": "nope", "to": "a@b.example", "key": "k"}, "body.template"),
    "no key": ("/messages", {"template": "notification", "to": "a@b.example"}, "body.key"),
}


async def test_what_does_not_fit_is_422_with_the_field(db: Database, session: aiohttp.ClientSession) -> None:
    operator = await client_for(db, session, "ours")
    for name, (path, body, field) in BAD.items():
        status, problem = await operator("POST", path, body)
        assert (status, problem["errors"][0]["field"]) == (422, field), (name, problem)
    assert "did you mean 'pack'?" in (await operator("POST", "/jobs", BAD["unknown task"][1]))[1]["detail"]
    assert await db.fetchval("select count(*) from onceward.work") == 0


async def test_workflows_start_and_messages_are_sent_once(db: Database, session: aiohttp.ClientSession) -> None:
    ours = await client_for(db, session, "ours")
    new = {"name": "ship", "args": {"order": 7}, "key": "order:7", "attributes": {"order": 7}}
    assert [(await ours("POST", "/workflows", new))[0] for _ in range(2)] == [201, 200]
    message = {"template": "notification", "to": "Ada@example.org", "key": "k", "data": {"title": "t", "body": "b"}}
    assert [(await ours("POST", "/messages", message))[0] for _ in range(2)] == [201, 200]
    rows = await db.fetch("select kind, organization_id from onceward.work order by kind")
    assert [tuple(row) for row in rows] == [("message", ours.organization), ("workflow", ours.organization)]


async def test_permissions_are_apart(db: Database, session: aiohttp.ClientSession) -> None:
    job = ("/jobs", {"task": "pack", "args": {"order": 1}})
    message = ("/messages", {"template": "notification", "to": "a@b.example", "key": "k"})

    async def statuses(scope: str) -> list[int]:
        client: Client = await client_for(db, session, scope, scope)
        return [(await client("POST", path, body))[0] for path, body in (job, message)]

    assert await statuses("enqueue") == [201, 403]
    assert await statuses("message") == [403, 201]
    assert await statuses("viewer") == [403, 403]
    async with session.post("/api/v1/jobs", json=job[1]) as response:
        assert response.status == 401


async def test_schemas_are_published(db: Database, session: aiohttp.ClientSession) -> None:
    viewer = await client_for(db, session, "ours", "viewer")
    status, tasks = await viewer("GET", "/tasks")
    assert status == 200
    assert [(each["kind"], each["name"], each["description"]) for each in tasks] == [
        ("job", "pack", "Pack an order."),
        ("workflow", "ship", "Ship an order."),
    ]
    assert tasks[0]["args"]["required"] == ["order"]
    assert tasks[0]["result"]["properties"]["article"] == {"title": "Article", "type": "string"}
    async with session.get("/api/v1/openapi.json") as response:
        document = await response.json()
    body = document["paths"]["/api/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["discriminator"]["mapping"] == {"pack": "#/components/schemas/NewJobPack"}
    models = document["components"]["schemas"]
    assert models["NewJobPack"]["properties"]["args"] == {"$ref": "#/components/schemas/NewJobPackArguments"}
    assert models["NewJobPackArgumentsLine"]["properties"]["article"]["type"] == "string"


def test_typescript_knows_jobs_and_workflows() -> None:
    text = type_declarations(make_app())
    assert 'export type PackArgsLine = { "article": string; "count"?: number };\n' in text
    assert '"pack": { args: { "order": number; "lines"?: Array<PackArgsLine> | null }; result: ' in text
    assert '"ship": { args: { "order": number }; result: null };' in text
    assert "refund" not in text
