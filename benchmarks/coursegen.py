"""Measure course generation: `onceward bench coursegen`.

accept-p95   milliseconds from the request to its 200, at 100 requests per second over HTTP
refusal-p95  milliseconds from the request to its 429, at 100 requests per second over HTTP
contended    courses per second until 1,000 courses that were asked for at once are written, while the global limit rises from
             3 to 10. The simulated language model counts the calls in flight: the case fails if there is ever one more
             than the limit of that moment, or more than one of a user.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import jwt
import orjson
from aiohttp import web
from pydantic import SecretStr

from benchmarks.measure import BenchFailed, Measurement, Size, compare
from onceward import Onceward
from onceward.feature import EVERY_ROLE
from onceward.integrations.openai import OpenAISimulator
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.trust import create_organization
from onceward.trust.settings import TrustSettings
from onceward.web.settings import WebSettings
from onceward.work.settings import WorkSettings
from onceward_apps.coursegen import app as coursegen
from onceward_apps.coursegen.app import CoursegenSettings
from onceward_apps.coursegen.simulated_author import write_course

FULL = 20
"""More courses of one user than may run and wait."""
CASES = ("accept-p95", "refusal-p95", "contended")
PER_S = 100
ASKED_PER_S = 40
LIMITS = range(3, 11)
USERS = 100
SECRET = "b" * 64
ADD = """
insert into coursegen.courses (organization_id, user_id, title, brief, lesson_count, budget_micros)
select $1, u, u::text, '', 1, 1000000 from unnest($2::uuid[]) u returning id, user_id
"""


class CountingModel(OpenAISimulator):
    """A language model that knows how many calls it serves at once, in all and for each user."""

    def __init__(self) -> None:
        super().__init__()
        self.write = write_course
        self.piece_characters = 2000
        self.latency_s = 0.1  # most of the time of a course, as with a real model, so that calls overlap
        self.in_flight = 0
        self.limit = LIMITS[0]
        self.most_by_limit: Counter[int] = Counter()
        self.by_user: Counter[str] = Counter()
        self.most_of_a_user = 0

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        user = orjson.loads(body["messages"][1]["content"])["course"]
        self.in_flight += 1
        self.by_user[user] += 1
        self.most_by_limit[self.limit] = max(self.most_by_limit[self.limit], self.in_flight)
        self.most_of_a_user = max(self.most_of_a_user, self.by_user[user])
        try:
            return await super()._complete(request)
        finally:
            self.in_flight -= 1
            self.by_user[user] -= 1


class School:
    """A running process with course generation, and a client."""

    def __init__(self, process: Process, http: aiohttp.ClientSession, organization: UUID, model: CountingModel) -> None:
        self.process = process
        self.db = process.database
        self.http = http
        self.organization = organization
        self.model = model
        assert process.web is not None
        self.url = f"{process.web.url}/api/coursegen/generate"
        self._tokens: dict[UUID, str] = {}

    async def courses(self, users: list[UUID]) -> list[tuple[str, UUID]]:
        rows = await self.db.fetch(ADD, self.organization, users)
        return [(str(row["id"]), row["user_id"]) for row in rows]

    def headers(self, user: UUID) -> dict[str, str]:
        if user not in self._tokens:
            claims = {"sub": str(user), "exp": int(time.time()) + 86400, "organization_id": str(self.organization)}
            self._tokens[user] = jwt.encode(claims, SECRET, "HS256")
        return {"Authorization": f"Bearer {self._tokens[user]}"}

    async def ask(self, course: str, user: UUID) -> tuple[int, Any]:
        async with self.http.post(self.url, json={"courseId": course}, headers=self.headers(user)) as reply:
            return reply.status, await reply.json(content_type=None)

    async def set_limit(self, at_most: int) -> None:
        """Set the global limit. It does not follow the load any more: what changed in the future is left alone."""
        await self.db.execute(
            "update onceward.limits set at_most = $1, changed_at = 'infinity' where name = 'global'", at_most
        )

    async def p95(self, asked: list[tuple[str, UUID]], status: int, after: Any) -> float:
        """Ask at a steady rate, and return the time below which 95 % of the answers came."""
        took: list[float] = []

        async def ask(course: str, user: UUID, at: float) -> None:
            await asyncio.sleep(at - time.perf_counter())
            began = time.perf_counter()
            got, body = await self.ask(course, user)
            took.append((time.perf_counter() - began) * 1000)
            if got != status:
                raise BenchFailed(f"a request got {got} instead of {status}: {str(body)[:200]}")
            await after(body)

        for course, user in asked[:5]:
            await ask(course, user, time.perf_counter())
        took.clear()
        begin = time.perf_counter() + 0.1
        await asyncio.gather(*(ask(*each, begin + n / PER_S) for n, each in enumerate(asked[5:])))
        return sorted(took)[int(len(took) * 0.95)]


@asynccontextmanager
async def opened(url: str, *, workers: bool) -> AsyncIterator[School]:
    model = CountingModel()
    await model.start()
    app = Onceward("bench")
    app.include(coursegen)
    coursegen.use_settings(CoursegenSettings.model_validate({"call_wait_s": 0.05}))
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            database_url=SecretStr(url),
            data_dir=Path(folder),
            port=0,
            simulators={"openai": model.base_url},
        ).using(
            WorkSettings(poll_interval_ms=100),
            WebSettings(jwt_secret=SecretStr(SECRET)),
            TrustSettings(secret_key=SecretStr("k" * 32)),
        )
        process = Process(app, settings, FEATURES)
        await process.start(EVERY_ROLE if workers else {"web"})
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as http:
            try:
                async with process.database.transaction(role="engine") as tx:
                    slug = f"bench-{uuid4().hex[:8]}"
                    created = await create_organization(tx, slug, actor="bench")
                yield School(process, http, created.organization_id, model)
            finally:
                await process.stop()
                await model.stop()


async def run(size: Size, url: str, *, only: str | None = None) -> list[Measurement]:
    results: list[Measurement] = []
    for name, case, workers in (
        ("accept-p95", _accept, False),
        ("refusal-p95", _refusal, False),
        ("contended", _contended, True),
    ):
        if only in (None, name):
            async with opened(url, workers=workers) as school:
                results.append(await case(school, size))
    return results


async def _accept(school: School, size: Size) -> Measurement:
    await school.set_limit(64)

    async def free(body: Any) -> None:
        await school.db.fetchval("select onceward.cancel($1)", int(body["jobId"]))

    async def once() -> float:
        asked = await school.courses([uuid4() for _ in range(size.pick(PER_S * 15, PER_S * 5, 15))])
        return await school.p95(asked, 200, free)

    return await _against(size, "accept-p95", once, target_ms=50.0)


async def _refusal(school: School, size: Size) -> Measurement:
    user = uuid4()
    statuses: list[int] = []
    for course, _ in await school.courses([user] * FULL):  # one course runs, some wait in line, more are refused
        statuses.append((await school.ask(course, user))[0])
    if statuses[0] != 200 or statuses[-1] != 429:
        raise BenchFailed(f"the first course must be accepted and the last one refused: {statuses}")

    async def nothing(_body: Any) -> None: ...

    async def once() -> float:
        asked = await school.courses([user] * size.pick(PER_S * 15, PER_S * 5, 15))
        return await school.p95(asked, 429, nothing)

    return await _against(size, "refusal-p95", once, target_ms=5.0)


async def _against(size: Size, case: str, once: Any, *, target_ms: float) -> Measurement:
    async def target() -> float:
        return target_ms

    return await compare(
        "coursegen",
        case,
        once,
        unit="ms",
        baseline=f"target of {target_ms:.0f} ms",
        theirs=target,
        turns=size.turns(),
        smaller_is_better=True,
    )


async def _contended(school: School, size: Size) -> Measurement:
    number = size.pick(1000, 150, 16)

    async def once() -> float:
        users = [uuid4() for _ in range(min(USERS, number))]
        school.model.most_of_a_user = 0
        school.model.most_by_limit.clear()
        await raise_limit(school, LIMITS[0])
        asked = await school.courses([users[n % len(users)] for n in range(number)])
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            queue = Queue(school, len(asked))
            for each in asked:
                group.create_task(queue.ask_until_accepted(*each))
            group.create_task(_until_written(school, [course for course, _ in asked]))
        took = time.perf_counter() - began
        exceeded = {limit: most for limit, most in school.model.most_by_limit.items() if most > limit}
        if exceeded or school.model.most_of_a_user > 1:
            raise BenchFailed(
                f"calls that the model served at once, by limit: {exceeded}; of one user: {school.model.most_of_a_user}"
            )
        if size is not Size.SMOKE and not any(most == limit for limit, most in school.model.most_by_limit.items()):
            raise BenchFailed("the model never served as many calls as the limit allows: the check says nothing")
        return number / took

    return await compare("coursegen", "contended", once, unit="courses/s", turns=size.turns(2, 1))


async def raise_limit(school: School, limit: int) -> None:
    """Set the limit. The model learns a higher one first: it must never see a call that is allowed already as one too many."""
    school.model.limit = limit
    await school.set_limit(limit)


class Queue:
    """Clients that are refused and ask again. Together they ask about `ASKED_PER_S` times a second, however many wait."""

    def __init__(self, school: School, waiting: int) -> None:
        self._school = school
        self._waiting = waiting

    async def ask_until_accepted(self, course: str, user: UUID) -> None:
        while True:
            status, body = await self._school.ask(course, user)
            if status == 200:
                self._waiting -= 1
                return
            if status != 429:
                raise BenchFailed(f"a request got {status}: {str(body)[:200]}")
            await asyncio.sleep(self._waiting / ASKED_PER_S * random.uniform(0.5, 1.5))


async def _until_written(school: School, asked: list[str]) -> None:
    """Raise the limit by one after each equal share of the courses, until all are written."""
    while True:
        rows = await school.db.fetch(
            "select status, count(*) from coursegen.courses where id = any($1::uuid[]) group by 1", asked
        )
        states = {row["status"]: row["count"] for row in rows}
        if states.get("failed"):
            raise BenchFailed(f"{states['failed']} courses failed")
        written = states.get("completed", 0)
        if written == len(asked):
            return
        limit = LIMITS[written * len(LIMITS) // len(asked)]
        if limit > school.model.limit:
            await raise_limit(school, limit)
        await asyncio.sleep(0.1)
