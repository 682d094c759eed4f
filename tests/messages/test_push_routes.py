"""A browser gets the public key, saves its subscription for the signed-in user, and removes it."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import aiohttp
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import SecretStr

from onceward.db import Database
from onceward.process.process import Process
from onceward.services import service_settings
from tests.web.operating import Client, client_for, started

SECRET = "a secret of the tests with at least 32 bytes"
KEY = ec.generate_private_key(ec.SECP256R1())
PRIVATE = base64.urlsafe_b64encode(KEY.private_numbers().private_value.to_bytes(32, "big")).rstrip(b"=").decode()
SUBSCRIPTION = {"endpoint": "https://push.example/abc", "keys": {"p256dh": "B" * 87, "auth": "a" * 22}}


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    process = await started(
        database_url,
        service_settings("webpush", private_key=PRIVATE, subject="mailto:ops@example.org"),
        roles={"web"},
        jwt_secret=SecretStr(SECRET),
    )
    yield process
    await process.stop()


async def test_a_user_subscribes_and_unsubscribes(db: Database, process: Process) -> None:
    assert process.web is not None
    claims = {"sub": "ada", "exp": datetime.now(UTC) + timedelta(hours=1)}
    async with aiohttp.ClientSession(process.web.url) as session:
        async with session.get("/api/v1/push/public-key") as response:
            public = base64.urlsafe_b64decode((await response.json())["public_key"] + "==")
        numbers = KEY.public_key().public_numbers()
        assert public == b"\x04" + numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")
        async with session.get("/live/service-worker.js") as response:
            assert "notificationclick" in await response.text()
        ada = Client(session, jwt.encode(claims, SECRET, algorithm="HS256"))
        assert (await ada("PUT", "/push/subscription", SUBSCRIPTION))[0] == 204
        saved = await db.fetchrow("select ref, push from onceward.recipients")
        assert saved is not None
        assert (saved["ref"], saved["push"]) == (
            "ada",
            {"endpoint": SUBSCRIPTION["endpoint"], "p256dh": "B" * 87, "auth": "a" * 22},
        )
        assert (await ada("PUT", "/push/subscription", {**SUBSCRIPTION, "endpoint": "http://push.example/x"}))[0] == 422
        assert (await ada("DELETE", "/push/subscription"))[0] == 204
        assert await db.fetchval("select push from onceward.recipients") is None
        operator = await client_for(db, session, "ours")
        assert (await operator("PUT", "/push/subscription", SUBSCRIPTION))[0] == 403
