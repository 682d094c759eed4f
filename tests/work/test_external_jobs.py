"""Jobs in other languages: claims, leases, outcomes, lanes, cancellation, and whose jobs a login or key gets."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import aiohttp
import asyncpg
import pytest

from onceward import Onceward
from onceward.db import Connection, Database
from onceward.process.process import Process
from onceward.testing.work import drain
from onceward.trust import create_organization
from onceward.trust.sql_logins import add_login, remove_login
from onceward.work import JobEnd
from tests.web.operating import Client, client_for, started

ENDED: list[tuple[str, str]] = []


def make_app() -> Onceward:
    app = Onceward("shop")

    @app.job(external=True, over_http=True, timeout=20, retry=[0, 0, 0])
    async def resize(*, image: str, width: int = 100) -> dict[str, str]:
        """Resize an image."""
        raise AssertionError("it runs in another program")

    @resize.on_end
    async def ended(tx: Any, end: JobEnd) -> None:  # pyright: ignore[reportUnusedFunction]
        ENDED.append((end.task, end.outcome))

    return app


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    ENDED.clear()
    process = await started(database_url, roles={"web", "worker"}, app=make_app())
    yield process
    await process.stop()


@pytest.fixture
async def http(process: Process) -> AsyncIterator[aiohttp.ClientSession]:
    assert process.web is not None
    async with aiohttp.ClientSession(process.web.url) as session:
        yield session


@pytest.fixture
async def worker(db: Database, process: Process) -> AsyncIterator[Connection]:
    """A program of the whole installation."""
    conn = await asyncpg.connect(db.url)
    yield conn
    await conn.close()


async def enqueue(db: Database, *, organization: UUID | None = None, **options: Any) -> int:
    named = "".join(f", {name} => ${n}" for n, name in enumerate(options, 2))
    async with db.transaction(role="engine", organization=organization) as tx:
        statement = f"select onceward.enqueue('resize', $1{named})"
        return await tx.fetchval(statement, {"image": "a.png"}, *options.values())


async def claim(conn: Connection, most: int = 1) -> list[Any]:
    return await conn.fetch("select * from onceward.claim_jobs('{resize}', $1)", most)


async def outcomes(db: Database, id: int) -> list[str]:
    rows = await db.fetch("select outcome from onceward.attempts where work_id = $1 order by number", id)
    return [row["outcome"] for row in rows]


async def test_a_program_claims_finishes_and_the_app_hears_of_the_end(
    db: Database, http: aiohttp.ClientSession
) -> None:
    ours = await client_for(db, http, "ours", "operator")
    status, made = await ours("POST", "/jobs", {"task": "resize", "args": {"image": "a.png"}})
    assert status == 201
    assert (await ours("POST", "/jobs", {"task": "resize", "args": {"width": "x"}}))[0] == 422
    status, claimed = await ours("POST", "/external-jobs/claim", {"tasks": ["resize"], "worker": "node-1", "wait_s": 5})
    [job] = claimed["jobs"]
    assert (job["id"], job["args"], job["attempt"]) == (made["id"], {"image": "a.png", "width": 100}, 1)
    beat = await ours("POST", f"/external-jobs/{job['id']}/heartbeat", {"lease": job["lease"]})
    assert beat == (200, {"state": "held"})
    saved = {"lease": job["lease"], "cursor": {"page": 3}}
    assert (await ours("POST", f"/external-jobs/{job['id']}/checkpoint", saved))[0] == 204
    failed = {"lease": job["lease"], "error": "the disk is full"}
    assert await ours("POST", f"/external-jobs/{job['id']}/fail", failed) == (200, {"outcome": "retry"})
    [again] = (await ours("POST", "/external-jobs/claim", {"tasks": ["resize"]}))[1]["jobs"]
    assert (again["attempt"], again["cursor"]) == (2, {"page": 3})
    status, problem = await ours("POST", f"/external-jobs/{job['id']}/finish", {"lease": job["lease"]})
    assert (status, problem["type"]) == (409, "lease-lost"), "the first lease is worth nothing any more"
    done = {"lease": again["lease"], "result": {"url": "b.png"}}
    assert await ours("POST", f"/external-jobs/{job['id']}/finish", done) == (200, {"outcome": "success"})
    assert await outcomes(db, job["id"]) == ["retry", "success"]
    async with asyncio.timeout(10):
        while not ENDED:
            await asyncio.sleep(0.02)
    assert ENDED == [("resize", "success")]
    assert await db.fetchval("select count(*) from onceward.external_claims") == 0


async def test_effect_and_outcome_are_one_commit(db: Database, worker: Connection) -> None:
    await db.execute("create table effects (job bigint primary key)")
    id = await enqueue(db)
    [job] = await claim(worker)
    with pytest.raises(RuntimeError, match="cut"):
        async with worker.transaction():
            await worker.execute("insert into effects values ($1)", job["id"])
            await worker.fetchval("select onceward.finish_job($1, $2)", job["id"], job["lease"])
            raise RuntimeError("cut")
    assert await db.fetchval("select count(*) from effects") == 0
    # The claim expires while the program is frozen; another one does the job.
    await db.execute("update onceward.external_claims set expires_at = clock_timestamp() - interval '1 second'")
    [second] = await claim(worker)
    assert (second["id"], second["attempt"], second["lease"] != job["lease"]) == (id, 1, True)
    with pytest.raises(asyncpg.PostgresError, match="not held under this lease") as lost:
        async with worker.transaction():
            await worker.execute("insert into effects values ($1)", job["id"])
            await worker.fetchval("select onceward.finish_job($1, $2)", job["id"], job["lease"])
    assert lost.value.sqlstate == "OW001"
    async with worker.transaction():
        await worker.execute("insert into effects values ($1)", job["id"])
        await worker.fetchval("select onceward.finish_job($1, $2)", second["id"], second["lease"])
    assert await db.fetchval("select count(*) from effects") == 1
    assert await outcomes(db, id) == ["crashed", "success"]


async def test_the_third_expired_claim_is_a_dead_letter_and_a_replay_runs_again(
    db: Database, worker: Connection
) -> None:
    id = await enqueue(db)
    for _ in range(3):
        await db.execute("update onceward.work set sort_at = onceward.now() where id = $1", id)
        [_job] = await claim(worker)
        await db.execute("update onceward.external_claims set expires_at = clock_timestamp() - interval '1 second'")
        assert await db.fetchval("select onceward.release_expired_jobs()") == 1
    assert await claim(worker) == []
    assert await db.fetchval("select dead_reason from onceward.work where id = $1", id) == "worker_lost"
    await db.execute("select onceward.replay($1)", id)
    [again] = await claim(worker)
    assert await worker.fetchval("select onceward.finish_job($1, $2)", id, again["lease"]) == "success"


async def test_attempts_end_as_the_task_says(db: Database, worker: Connection) -> None:
    id = await enqueue(db)
    fail = "select onceward.fail_job($1, $2, 'no', permanent => $3)"
    seen = [await worker.fetchval(fail, id, (await claim(worker))[0]["lease"], False) for _ in range(4)]
    assert seen == ["retry", "retry", "retry", "dead_letter"]
    other = await enqueue(db)
    assert await worker.fetchval(fail, other, (await claim(worker))[0]["lease"], True) == "dead_letter"
    third = await enqueue(db)
    [job] = await claim(worker)
    assert await worker.fetchval("select onceward.release_job($1, $2)", third, job["lease"]) == "released"
    [job] = await claim(worker)
    assert (job["id"], job["attempt"]) == (third, 1), "a release counts no attempt"


async def test_a_cancelled_job_stops_its_program_and_ends(db: Database, worker: Connection) -> None:
    id = await enqueue(db)
    [job] = await claim(worker)
    assert await db.fetchval("select onceward.cancel($1)", id) == "asked"
    assert await worker.fetchval("select onceward.heartbeat_job($1, $2)", id, job["lease"]) == "cancel"
    assert await worker.fetchval("select onceward.fail_job($1, $2, 'stopped')", id, job["lease"]) == "cancelled"
    assert await outcomes(db, id) == ["cancelled"]
    gone = await enqueue(db)
    [job] = await claim(worker)
    await db.execute("select onceward.cancel($1)", gone)
    await db.execute("update onceward.external_claims set expires_at = clock_timestamp() - interval '1 second'")
    assert await claim(worker) == []
    assert await outcomes(db, gone) == ["cancelled"], "a program that is gone does not keep a cancelled job"


async def test_lanes_keep_their_order_and_their_caps(db: Database, worker: Connection) -> None:
    first, second = [await enqueue(db, lane="a", ordered=True) for _ in range(2)]
    other = await enqueue(db, lane="b", cap=1)
    await enqueue(db, lane="b", cap=1)
    claimed = await claim(worker, 10)
    assert {job["id"] for job in claimed} == {first, other}, "one of each lane, under one lease"
    assert len({job["lease"] for job in claimed}) == 1
    held = {job["id"]: job["lease"] for job in claimed}
    assert await claim(worker, 10) == []
    await worker.fetchval("select onceward.fail_job($1, $2, 'no')", first, held[first])
    [again] = await claim(worker, 10)
    assert again["id"] == first, "the order is kept: the second waits for the first"
    await worker.fetchval("select onceward.finish_job($1, $2)", first, again["lease"])
    # The other job of the same claim is still held, and the lane goes on.
    assert [job["id"] for job in await claim(worker, 10)] == [second]
    assert await worker.fetchval("select onceward.finish_job($1, $2)", other, held[other]) == "success"
    assert len(await claim(worker, 10)) == 1


async def test_a_paused_queue_gives_nothing_and_our_workers_leave_external_jobs_alone(
    db: Database, worker: Connection, process: Process
) -> None:
    id = await enqueue(db)
    assert process.engine is not None
    assert await drain(process.engine) == 0
    await db.execute("insert into onceward.queues (name, paused_at) values ('external:resize', onceward.now())")
    assert await claim(worker) == []
    await db.execute("delete from onceward.queues")
    assert [job["id"] for job in await claim(worker)] == [id]


async def test_a_backlog_of_one_organization_does_not_delay_others(db: Database, worker: Connection) -> None:
    ids: dict[UUID, list[int]] = {}
    for slug, number in (("big", 12), ("small", 1), ("other", 1)):
        async with db.transaction(role="engine") as tx:
            organization = (await create_organization(tx, slug, actor="test")).organization_id
        ids[organization] = [await enqueue(db, organization=organization) for _ in range(number)]
    seen = [(await claim(worker))[0]["organization_id"] for _ in range(3)]
    assert set(seen) == set(ids), "each of the first three claims serves another organization"
    assert len(await claim(worker, 20)) == 11, "what is left goes to those that have more"


async def test_a_login_and_a_key_get_jobs_of_their_organization_only(db: Database, http: aiohttp.ClientSession) -> None:
    ours, theirs = [await client_for(db, http, slug, "work") for slug in ("ours", "theirs")]
    mine = await enqueue(db, organization=ours.organization)
    lane = await enqueue(db, organization=ours.organization, lane="a", ordered=True)
    foreign = await enqueue(db, organization=theirs.organization, lane="b", ordered=True)
    login = f"worker_{secrets.token_hex(4)}"
    async with db.transaction(role="engine") as tx:
        password = await add_login(tx, login, organization=_id(ours), actor="test")
    conn = await asyncpg.connect(db.url, user=login, password=password)
    try:
        jobs = await claim(conn, 10)
        assert {job["id"] for job in jobs} == {mine, lane}
        status, claimed = await theirs("POST", "/external-jobs/claim", {"tasks": ["resize"], "most": 10})
        assert (status, [job["id"] for job in claimed["jobs"]]) == (200, [foreign])
        lease = int(claimed["jobs"][0]["lease"])
        for call in (
            "finish_job($1, $2)",
            "heartbeat_job($1, $2)",
            "checkpoint_job($1, $2, '{}')",
            "release_job($1, $2)",
        ):
            with pytest.raises(asyncpg.PostgresError, match="not held under this lease"):
                await conn.fetchval(f"select onceward.{call}", foreign, lease)
        wrong = {"lease": str(jobs[0]["lease"])}
        assert (await theirs("POST", f"/external-jobs/{jobs[0]['id']}/finish", wrong))[0] == 409
        for statement in ("select * from onceward.work", "select onceward.settle(1, 1, null, 'success', null)"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await conn.execute(statement)
        assert (await theirs("GET", "/jobs"))[0] == 403, "the permission allows nothing else"
    finally:
        await conn.close()
        async with db.transaction(role="engine") as tx:
            await remove_login(tx, login, actor="test")


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "no task": ("claim", {"tasks": []}, "body.tasks"),
    "too many jobs": ("claim", {"tasks": ["resize"], "most": 1000}, "body.most"),
    "a lease that is not a number": ("7/heartbeat", {"lease": "x"}, "body.lease"),
    "a lease beyond 64 bits": ("7/heartbeat", {"lease": "9999999999999999999"}, "body.lease"),
    "no cursor": ("7/checkpoint", {"lease": "7", "cursor": None}, "body.cursor"),
    "a large result": ("7/finish", {"lease": "7", "result": "x" * 70_000}, "body.result"),
    "NUL in an error": ("7/fail", {"lease": "7", "error": "a\0b"}, "body.error"),
}


async def test_a_wrong_request_names_the_field(db: Database, http: aiohttp.ClientSession) -> None:
    ours = await client_for(db, http, "ours", "work")
    for name, (path, body, field) in BAD.items():
        status, problem = await ours("POST", f"/external-jobs/{path}", body)
        assert (status, problem["errors"][0]["field"]) == (422, field), name


def test_a_declaration_that_cannot_run_elsewhere_is_refused() -> None:
    app = Onceward("shop")

    @app.job(external=True)
    async def good(*, image: str) -> None: ...

    with pytest.raises(ValueError, match="a queue of its own, external:good"):
        good.in_queue("other")
    with pytest.raises(TypeError, match="runs in another program"):

        @app.job(external=True, queue="x")
        async def bad(*, image: str) -> None: ...  # pyright: ignore[reportUnusedFunction]


def _id(client: Client) -> UUID:
    assert client.organization is not None
    return client.organization
