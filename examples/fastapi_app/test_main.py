"""The application as a client sees it, with a worker in the same process."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from main import api, mounted

from onceward.testing import until


@pytest_asyncio.fixture
async def client(onceward_database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", onceward_database_url)
    monkeypatch.setenv("ONCEWARD_POOL_MAX", "5")
    transport = httpx.ASGITransport(app=api, raise_app_exceptions=False)
    async with mounted.lifespan(api), httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        yield client


async def test_a_request_creates_an_order_and_its_job(client: httpx.AsyncClient) -> None:
    assert (await client.post("/orders/7")).status_code == 200

    async def packed() -> bool:
        return (await client.get("/orders/7")).json() == {"packed": True}

    await until(packed)

    # The rest of the paths is Onceward's.
    assert (await client.get("/readyz")).json()["status"] == "ready"
    assert (await client.post("/webhooks/unknown", content=b"{}")).status_code == 404
    assert "Log in" in (await client.get("/login", headers={"accept": "text/html"})).text


async def test_a_request_that_fails_leaves_nothing(client: httpx.AsyncClient) -> None:
    assert (await client.post("/orders/-1")).status_code == 422
    assert (await client.post("/orders/7")).status_code == 200
    assert (await client.post("/orders/7")).status_code == 500  # the commit failed, so the client must not get a 200

    counts = "select (select count(*) from orders), (select count(*) from onceward.jobs)"
    assert tuple(await mounted.engine.db.fetchrow(counts)) == (1, 1)
