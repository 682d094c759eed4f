"""A running process with course generation, a receiver of webhooks, and users with tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import jwt as pyjwt
from aiohttp import web
from pydantic import SecretStr

from onceward import Onceward
from onceward.feature import EVERY_ROLE, Role
from onceward.integrations.openai import OpenAISimulator
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.trust import create_organization
from onceward.trust.keys import create_key
from onceward.trust.settings import TrustSettings
from onceward.web.settings import WebSettings
from onceward.work.settings import WorkSettings
from onceward_apps.coursegen import app as coursegen
from onceward_apps.coursegen.app import CoursegenSettings
from onceward_apps.coursegen.simulated_author import write_course

JWT_SECRET = "j" * 64


class Server:
    """What tests do over HTTP, in few words."""

    def __init__(self, process: Process, http: aiohttp.ClientSession, openai: OpenAISimulator, hooks: Hooks) -> None:
        self.process = process
        self.http = http
        self.openai = openai
        self.hooks = hooks
        self.db = process.database
        self.organization = UUID(int=0)
        self.key = ""
        self.user = uuid4()

    @property
    def url(self) -> str:
        assert self.process.web is not None
        return self.process.web.url

    def token(self, user: Any = None, organization: Any = None, **claims: Any) -> str:
        subject = str(user or self.user)
        all_claims = {
            "sub": subject,
            "exp": time.time() + 3600,
            "organization_id": str(organization or self.organization),
        }
        return pyjwt.encode({**all_claims, **claims}, JWT_SECRET, "HS256")

    async def call(
        self,
        method: str,
        path: str,
        json: Any = None,
        *,
        token: str | None = None,
        language: str = "en",
        **options: Any,
    ) -> Answer:
        headers = {"Accept-Language": language, **options.pop("headers", {})}
        token = self.token() if token is None else token
        if token:
            headers["Authorization"] = f"Bearer {token}"
        async with self.http.request(method, self.url + path, json=json, headers=headers, **options) as reply:
            body = await reply.read()
            is_json = "json" in reply.headers.get("Content-Type", "") and body
            return Answer(reply.status, await reply.json(content_type=None) if is_json else body, reply.headers)

    async def add_course(self, **fields: Any) -> str:
        answer = await self.call("POST", "/api/coursegen/courses", {"title": "Knots", "lessons": 1, **fields})
        assert answer.status == 201, answer
        return answer.body["id"]

    async def generate(self, course_id: str, **fields: Any) -> Answer:
        return await self.call("POST", "/api/coursegen/generate", {"courseId": course_id, **fields})

    async def until(self, course_id: str, *statuses: str) -> Any:
        """Wait until the course is in one of these states."""
        deadline = time.monotonic() + 30
        while True:
            answer = await self.call("GET", f"/api/coursegen/courses/{course_id}")
            if answer.body["status"] in statuses:
                return answer.body
            assert time.monotonic() < deadline, answer.body
            await asyncio.sleep(0.03)


class Answer:
    def __init__(self, status: int, body: Any, headers: Any) -> None:
        self.status = status
        self.body = body
        self.headers = headers

    def __repr__(self) -> str:
        return f"{self.status} {self.body}"


class Hooks:
    """A receiver of webhooks on loopback."""

    def __init__(self) -> None:
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        async def take(request: web.Request) -> web.Response:
            self.received.append(
                ({name.lower(): value for name, value in request.headers.items()}, await request.read())
            )
            return web.Response(status=204)

        site = web.Application()
        site.add_routes([web.post("/{name}", take)])
        self._runner = web.AppRunner(site, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def until(self, number: int) -> None:
        deadline = time.monotonic() + 20
        while len(self.received) < number:
            assert time.monotonic() < deadline, f"{len(self.received)} of {number} webhooks arrived"
            await asyncio.sleep(0.03)


@asynccontextmanager
async def running(
    database_url: str,
    folder: Path,
    *,
    roles: Iterable[Role] = EVERY_ROLE,
    **app_settings: Any,
) -> AsyncIterator[Server]:
    openai, hooks = OpenAISimulator(), Hooks()
    openai.write, openai.piece_characters = write_course, 200
    await openai.start()
    await hooks.start()
    settings = Settings(
        database_url=SecretStr(database_url),
        data_dir=folder,
        port=0,
        pool_max=8,
        allow_loopback_endpoints=True,
        shutdown_grace_s=1,
        simulators={"openai": openai.base_url},
    ).using(
        WorkSettings(poll_interval_ms=100),
        WebSettings(jwt_secret=SecretStr(JWT_SECRET)),
        TrustSettings(secret_key=SecretStr("k" * 32)),
    )
    app = Onceward("coursegen_server")
    app.include(coursegen)
    coursegen.use_settings(CoursegenSettings.model_validate({"call_wait_s": 0.0, **app_settings}))
    process = Process(app, settings, FEATURES)
    await process.start(roles)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        server = Server(process, http, openai, hooks)
        try:
            async with process.database.transaction(role="engine") as tx:
                created = await create_organization(tx, "school", name="School", actor="test")
                server.organization = created.organization_id
                key = await create_key(
                    tx, name="root", organization=created.organization_id, scopes=["owner"], actor="test"
                )
                server.key = key.text
            yield server
        finally:
            await process.stop()
            await hooks.stop()
            await openai.stop()


async def until_free(server: Server) -> None:
    """Wait until the worker has stopped the cancelled job."""
    async with asyncio.timeout(20):
        while await server.db.fetchval("select count(*) from onceward.work where task = 'coursegen.generate'"):
            await asyncio.sleep(0.03)
