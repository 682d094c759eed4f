"""The dashboard channel can be read: list, unread count, mark as read, live, over HTTP and on the dashboard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import jwt
import pytest
from pydantic import SecretStr

from onceward.db import Database
from onceward.process.process import Process
from onceward.testing import until
from onceward.trust import create_organization
from tests.web.operating import Client, client_for, started

SECRET = "a secret of the tests with at least 32 bytes"


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    process = await started(database_url, roles={"web", "worker"}, jwt_secret=SecretStr(SECRET))
    yield process
    await process.stop()


@pytest.fixture
async def session(process: Process) -> AsyncIterator[aiohttp.ClientSession]:
    assert process.web is not None
    async with aiohttp.ClientSession(process.web.url) as session:
        yield session


async def send(process: Process, organization: Any, to: str, title: str) -> None:
    async with process.context.engine.transaction(organization=organization) as tx:
        data = {"title": title, "body": title, "metadata": {}, "type": "cohort.started", "severity": "warn"}
        await tx.send("notification", to={"ref": to}, key=f"{to}:{title}", data=data, channel="dashboard")


async def test_a_user_reads_the_own_notifications_and_marks_them(
    db: Database, process: Process, session: aiohttp.ClientSession
) -> None:
    async with db.transaction(role="engine") as tx:
        organization = (await create_organization(tx, "ours", actor="test")).organization_id
    clients = {
        user: Client(session, jwt.encode(
            {"sub": user, "organization_id": str(organization), "exp": datetime.now(UTC) + timedelta(hours=1)},
            SECRET, algorithm="HS256",
        ))
        for user in ("ada", "eve")
    }  # fmt: skip
    ada, eve = clients["ada"], clients["eve"]
    for title in ("one", "two", "three"):
        await send(process, organization, "ada", title)

    async def arrived() -> Any:
        messages = (await ada("GET", "/inbox"))[1]
        return messages if len(messages) == 3 else None

    messages = await until(arrived)
    assert {each["title"] for each in messages} == {"one", "two", "three"}
    assert (messages[0]["type"], messages[0]["severity"], messages[0]["read_at"]) == ("cohort.started", "warn", None)
    assert (await ada("GET", "/inbox/unread"))[1] == {"unread": 3}
    assert (await eve("GET", "/inbox"))[1] == []
    assert (await eve("POST", "/inbox/read", {"up_to": messages[0]["id"]}))[1] == {"unread": 0}
    assert (await ada("POST", "/inbox/read", {"ids": [messages[1]["id"]]}))[1] == {"unread": 2}
    assert (await ada("POST", "/inbox/read", {"up_to": messages[0]["id"]}))[1] == {"unread": 0}
    assert (await ada("GET", "/inbox?unread=true"))[1] == []
    assert (await ada("POST", "/inbox/read", {}))[0] == 422


async def test_staff_sees_the_number_of_unread_notices_in_the_bell(
    db: Database, process: Process, session: aiohttp.ClientSession
) -> None:
    ours, theirs = await client_for(db, session, "ours", "viewer"), await client_for(db, session, "theirs", "viewer")
    await send(process, ours.organization, "admins", "disk full")

    async def page(client: Client, path: str, **form: str) -> str:
        headers = {"Authorization": f"Bearer {client.key}"}
        method = "POST" if form else "GET"
        async with session.request(method, path, headers=headers, data=form or None) as response:
            assert response.status == 200, await response.text()
            return await response.text()

    async def rung() -> bool:
        return "Notifications, 1 unread" in await page(ours, "/dashboard/jobs")

    await until(rung)
    shown = await page(ours, "/dashboard/notifications")
    assert "disk full" in shown
    for organization in (ours.organization, None):
        claims = {"sub": "admins", "organization_id": organization and str(organization), "exp": 2**33}
        customer = Client(session, jwt.encode(claims, SECRET, algorithm="HS256"))
        assert (await customer("GET", "/inbox"))[1] == [], "a subject that a customer chose is not the staff"
        assert (await customer("POST", "/inbox/read", {"up_to": 2**60}))[1] == {"unread": 0}
    assert "disk full" not in await page(theirs, "/dashboard/notifications")
    id = await db.fetchval("select id from onceward.dashboard_messages")
    await page(theirs, "/dashboard/notifications/read", id=str(id))
    assert "1 unread" in await page(ours, "/dashboard/notifications")
    assert "0 unread" in await page(ours, "/dashboard/notifications/read", id=str(id))


async def test_the_live_query_sends_the_new_count(
    process: Process, session: aiohttp.ClientSession, db: Database
) -> None:
    claims = {"sub": "ada", "exp": datetime.now(UTC) + timedelta(hours=1)}
    token = jwt.encode(claims, SECRET, algorithm="HS256")
    async with session.ws_connect("/live") as socket:
        await socket.send_json({"type": "hello", "token": token})
        await socket.send_json({"type": "subscribe", "id": 1, "query": "notifications", "arguments": {}})

        async def unread() -> int:
            while True:
                frame = await socket.receive_json(timeout=20)
                for each in frame["messages"] if frame["type"] == "batch" else [frame]:
                    for result in each.get("results", []):
                        if "data" in result:
                            return result["data"]["unread"]

        assert await unread() == 0
        await send(process, None, "ada", "one")
        assert await unread() == 1
