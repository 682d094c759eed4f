"""A running process with the learning platform, for tests over HTTP and in a browser."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import jwt as pyjwt
import orjson
from pydantic import SecretStr

from onceward import Onceward
from onceward.inbox import sources
from onceward.integrations.stripe import StripeSimulator
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing import until
from onceward.trust import create_organization
from onceward.trust.keys import create_key
from onceward.trust.secrets import secret_box
from onceward.web.settings import WebSettings
from onceward.work.settings import WorkSettings
from onceward_apps.learning import app as learning
from onceward_apps.learning import users
from onceward_apps.learning.cohorts import NewCohort, create_cohort, set_status
from onceward_apps.learning.enrollments import enrol_free

JWT_SECRET = "j" * 64
WEBHOOK_SECRET = "whsec_" + "w" * 32
STUDENT = "/api/v1/learning/student"
PUBLIC = "/api/v1/learning/public"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    """What tests do over HTTP, in few words."""

    def __init__(self, process: Process, http: aiohttp.ClientSession) -> None:
        self.process = process
        self.http = http
        self.db = process.database
        self.engine = process.engine
        self.organization = UUID(int=0)
        self.key = ""

    @property
    def url(self) -> str:
        assert self.process.web is not None
        return self.process.web.url

    async def call(
        self, method: str, path: str, body: Any = None, *, cookie: str = "", token: str = "", **headers: str
    ) -> tuple[int, Any]:
        if cookie:
            headers["cookie"] = f"learning_session={cookie}"
        if token:
            headers["authorization"] = f"Bearer {token}"
        async with self.http.request(
            method, self.url + path, json=body, headers=headers, allow_redirects=False
        ) as answer:
            text = await answer.text()
            is_json = "json" in answer.headers.get("content-type", "")
            return answer.status, orjson.loads(text) if is_json and text else text

    def jwt(self, user: UUID, organization: UUID | None = None) -> str:
        claims = {"sub": str(user), "exp": time.time() + 600, "organization_id": str(organization or self.organization)}
        return pyjwt.encode(claims, JWT_SECRET, "HS256")

    async def cohort(self, name: str = "Course", **more: Any) -> UUID:
        """A free cohort that people can enrol in."""
        now = datetime.now(UTC)
        values: dict[str, Any] = {
            "name": name,
            "starts_at": now + timedelta(days=1),
            "ends_at": now + timedelta(days=30),
            "max_capacity": 10,
            "price": 0,
            "currency": "EUR",
        }
        async with self.engine.transaction(organization=self.organization) as tx:
            row = await create_cohort(tx, NewCohort(**(values | more)), actor="test")
            await set_status(tx, row["id"], "OPEN", actor="test")
        return row["id"]

    async def begin(self, cohort: UUID) -> None:
        for status in ("CONFIRMED", "IN_PROGRESS"):
            async with self.engine.transaction(organization=self.organization) as tx:
                await set_status(tx, cohort, status, actor="test")

    async def enrol(self, cohort: UUID, name: str) -> UUID:
        """Enrol somebody in a free cohort, as the link of the confirmation does."""
        async with self.engine.transaction(organization=self.organization) as tx:
            user = await users.register(tx, email=f"{name.lower()}@example.org", name=name, confirmed=False)
            return await enrol_free(tx, cohort, user["id"])

    async def sign_in(self, name: str) -> str:
        """Ask for a link, read it in the mail, use it. Returns the session."""
        before = await self.db.fetchval("select coalesce(max(id), 0) from onceward.messages")
        await self.call("POST", f"{PUBLIC}/sign-in", {"email": f"{name.lower()}@example.org"})

        async def mail() -> Any:
            return await self.db.fetchval(
                "select data ->> 'link' from onceward.messages where id > $1 and template = 'student-sign-in'", before
            )

        token = (await until(mail)).rsplit("/", 1)[-1]
        status, page = await self.call("GET", f"/learn/sign-in/{token}")
        assert status == 200, page
        assert "Sign in now" in page
        async with self.http.post(self.url + f"{PUBLIC}/session", json={"token": token}) as answer:
            assert answer.status == 201
            self.http.cookie_jar.clear()
            return answer.cookies["learning_session"].value

    async def live(self, query: str, *, token: str = "", **arguments: Any) -> Any:
        """Return the first result of a live query, or its error."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        given = {name: str(value) if isinstance(value, UUID) else value for name, value in arguments.items()}
        params = {"query": query, "arguments": orjson.dumps(given).decode()}
        timeout = aiohttp.ClientTimeout(total=60)
        async with self.http.get(f"{self.url}/live/sse", params=params, headers=headers, timeout=timeout) as answer:
            async for line in answer.content:
                if not line.startswith(b"data:"):
                    continue
                message = orjson.loads(line[5:])
                if message.get("type") == "frame" and message.get("results"):
                    [result] = message["results"]
                    return result.get("data", result)
                if message.get("type") == "error":
                    return message
        return None


@asynccontextmanager
async def running(database_url: str, folder: Path, *, stripe: StripeSimulator | None = None) -> AsyncIterator[Server]:
    """A process with one organization. With `stripe`, people can pay on the pages of the simulator."""
    port = 0 if stripe is None else free_port()
    payments: dict[str, Any] = {} if stripe is None else {"simulators": {"stripe": stripe.url}}
    settings = Settings(
        **payments,
        database_url=SecretStr(database_url),
        data_dir=folder,
        port=port,
        public_url=f"http://127.0.0.1:{port}" if stripe is not None else "",
        pool_max=8,
    ).using(WorkSettings(poll_interval_ms=100), WebSettings(jwt_secret=SecretStr(JWT_SECRET)))
    # A process adds its own parts to its app: an app that other tests use would keep them.
    app = Onceward("school")
    app.include(learning)
    process = Process(app, settings, FEATURES)
    await process.start()
    try:
        async with aiohttp.ClientSession() as http:
            server = Server(process, http)
            async with server.db.transaction(role="engine") as tx:
                made = await create_organization(tx, "riverside", name="Riverside School", actor="test")
                server.organization = made.organization_id
                key = await create_key(
                    tx, name="ops", organization=made.organization_id, scopes=["operator"], actor="test"
                )
                server.key = key.text
                if stripe is not None:
                    source = sources.NewSource(name="learning-stripe", provider="stripe", secrets=(WEBHOOK_SECRET,))
                    await sources.add(tx, secret_box(settings), source, actor="test")
            if stripe is not None:
                stripe.send_webhooks_to(f"{server.url}/webhooks/learning-stripe", secret=WEBHOOK_SECRET)
            yield server
    finally:
        await process.stop()
