"""The HTTP face of a running process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from fastapi import APIRouter, Depends
from pydantic import BaseModel, SecretStr
from starlette.applications import Starlette
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from onceward import Engine, Onceward
from onceward.db import Database, Unavailable
from onceward.health import Health
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.web import Dispatcher, Problem, database_of, engine_of
from onceward.web.asgi import Mount
from onceward.web.health import MetricsGuard, health_routes
from onceward.web.settings import WebSettings


class Order(BaseModel):
    amount: int


app = Onceward("shop")
router = APIRouter(prefix="/api/v1/shop")
app.routes(router)


@app.job
async def ship(*, order: int) -> None: ...


@router.post("/orders")
async def place(order: Order, engine: Engine = Depends(engine_of)) -> dict[str, int]:
    return {"work": (await engine.enqueue(ship, order=order.amount)).id}


@router.get("/number")
async def number(db: Database = Depends(database_of)) -> dict[str, int]:
    return {"number": await db.fetchval("select 7")}


@router.get("/refused")
async def refused() -> None:
    raise Problem(409, "seat A12 is taken", kind="seat-taken", seat="A12")


@router.get("/bug")
async def bug() -> None:
    raise RuntimeError("hunter2")


@router.get("/slow")
async def slow(seconds: float = 30.0, db: Database = Depends(database_of)) -> dict[str, bool]:
    async with db.transaction() as tx:
        await tx.execute("select pg_sleep($1)", seconds)
    return {"done": True}


@router.get("/outage")
async def outage() -> None:
    raise Unavailable("no connection to 10.0.0.7")


@pytest.fixture
async def runtime(database_url: str) -> AsyncIterator[Process]:
    settings = Settings(database_url=SecretStr(database_url), port=0, pool_max=5).using(
        WebSettings(max_body_bytes=2048, http_statement_timeout_s=1.0)
    )
    runtime = Process(app, settings, FEATURES)
    await runtime.start({"web"})
    yield runtime
    await runtime.stop()


@pytest.fixture
async def http(runtime: Process) -> AsyncIterator[aiohttp.ClientSession]:
    assert runtime.web is not None
    async with aiohttp.ClientSession(runtime.web.url) as session:
        yield session


async def problem(response: aiohttp.ClientResponse) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/problem+json"
    body = json.loads(await response.text())
    assert body["status"] == response.status
    assert body["request_id"] == response.headers["x-request-id"]
    return body


async def test_alive_ready_and_measured(http: aiohttp.ClientSession) -> None:
    assert (await http.get("/healthz")).status == 200
    ready = await http.get("/readyz")
    assert (ready.status, await ready.json()) == (200, {"status": "ready", "checks": {"loops": "ok", "database": "ok"}})
    assert 'onceward_http_requests_total{method="GET",route="/readyz"' in await (await http.get("/metrics")).text()


async def test_not_ready_while_a_dependency_fails_or_a_stop_has_begun(
    http: aiohttp.ClientSession, runtime: Process
) -> None:
    async def broken() -> None:
        raise ConnectionError("secret address")

    runtime.health.add("database", broken)
    response = await http.get("/readyz")
    assert response.status == 503
    assert (await response.json())["checks"] == {"loops": "ok", "database": "ConnectionError"}
    runtime.health.stopping = True
    assert (await (await http.get("/readyz")).json())["status"] == "stopping"


async def test_app_adds_routes_that_use_database_and_engine(http: aiohttp.ClientSession, db: Database) -> None:
    assert await (await http.get("/api/v1/shop/number")).json() == {"number": 7}
    placed = await (await http.post("/api/v1/shop/orders", json={"amount": 3})).json()
    assert await db.fetchval("select task from onceward.work where id = $1", placed["work"]) == "ship"
    schema = await (await http.get("/api/v1/openapi.json")).json()
    assert "/api/v1/shop/orders" in schema["paths"]
    docs = await http.get("/api/v1/docs")
    page = await docs.text()
    assert "/api/v1/shop/orders" in page
    assert "<script" not in page
    assert "https://" not in page, "nothing from other hosts on the origin of sessions"
    assert docs.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize("path", ["/healthz", "/nothing/here", "/webhooks/nobody", "/live/client.js", "/dashboard"])
async def test_no_browser_guesses_the_type_of_a_response(http: aiohttp.ClientSession, path: str) -> None:
    response = await http.get(path, allow_redirects=False)
    assert set(response.headers.getall("x-content-type-options")) == {"nosniff"}


async def test_the_log_shows_ids_of_a_path_and_no_tokens(http: aiohttp.ClientSession) -> None:
    with capture_logs() as lines:
        for path in (
            "/unsubscribe/s3cret-token",
            "/api/v1/trace/4711",
            "/login/s3cret-token",
            "/s3cret-token-of-some-kind-that-is-long",
        ):
            await http.get(path)
    logged = str(lines)
    assert "s3cret" not in logged
    assert "/unsubscribe/{token}" in logged
    assert "/api/v1/trace/4711" in logged


def test_metrics_are_for_this_machine_or_for_those_with_the_token() -> None:
    def status(guard: MetricsGuard, client: str = "127.0.0.1", **headers: str) -> int:
        routes = health_routes(Health(), guard=guard)
        with TestClient(Starlette(routes=routes), base_url="http://127.0.0.1", client=(client, 1)) as caller:
            return caller.get("/metrics", headers=headers).status_code

    web, own_port = MetricsGuard(None, open_to_network=False), MetricsGuard(None, open_to_network=True)
    assert status(web) == 200
    assert status(web, "203.0.113.9") == 401, "the header Host alone proves nothing"
    assert status(web, host="shop.example") == 401
    assert status(web, **{"x-forwarded-for": "203.0.113.9"}) == 401
    assert status(own_port, "203.0.113.9", host="10.0.0.7:8400") == 200
    for guard in (MetricsGuard(SecretStr("s3cret"), open_to_network=opened) for opened in (True, False)):
        assert status(guard) == 401
        assert status(guard, authorization="Bearer other") == 401
        assert status(guard, "203.0.113.9", authorization="Bearer s3cret") == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing/here", 404), ("PUT", "/healthz", 405), ("GET", "/api/v1/shop/outage", 503)],
)
async def test_every_error_is_a_problem(http: aiohttp.ClientSession, method: str, path: str, status: int) -> None:
    response = await http.request(method, path)
    assert response.status == status
    body = await problem(response)
    assert "10.0.0.7" not in json.dumps(body)


async def test_problem_carries_its_own_members(http: aiohttp.ClientSession) -> None:
    body = await problem(await http.get("/api/v1/shop/refused"))
    assert (body["type"], body["detail"], body["seat"]) == ("seat-taken", "seat A12 is taken", "A12")


async def test_body_that_does_not_fit_names_the_field(http: aiohttp.ClientSession) -> None:
    body = await problem(await http.post("/api/v1/shop/orders", json={"amount": "x"}))
    assert body["status"] == 422
    assert body["errors"][0]["field"] == "body.amount"


async def test_bug_is_answered_without_its_text(http: aiohttp.ClientSession) -> None:
    body = await problem(await http.get("/api/v1/shop/bug"))
    assert body["status"] == 500
    assert "hunter2" not in json.dumps(body)


async def test_body_above_the_limit_is_refused_declared_or_not(http: aiohttp.ClientSession) -> None:
    assert (await problem(await http.post("/api/v1/shop/orders", data=b"x" * 4096)))["status"] == 413

    async def undeclared() -> AsyncIterator[bytes]:
        for _ in range(8):
            yield b"x" * 512

    assert (await problem(await http.post("/api/v1/shop/orders", data=undeclared())))["status"] == 413


async def test_harmless_request_id_is_kept_and_another_replaced(http: aiohttp.ClientSession) -> None:
    kept = await http.get("/healthz", headers={"X-Request-Id": "abc-1"})
    assert kept.headers["x-request-id"] == "abc-1"
    replaced = await http.get("/healthz", headers={"X-Request-Id": "two words"})
    assert replaced.headers["x-request-id"] != "two words"


async def test_dispatcher_takes_whole_path_segments_and_the_longest_prefix() -> None:
    seen: list[str] = []

    def part(name: str):
        async def app(_scope, _receive, _send) -> None:
            seen.append(name)

        return app

    dispatcher = Dispatcher(part("api"))
    dispatcher.mount(Mount("/live", part("live")))
    dispatcher.mount(Mount("/live/sse", part("sse")))
    for path in ("/live", "/live/x", "/live/sse", "/lively", "/"):
        await dispatcher({"type": "http", "path": path}, None, None)  # type: ignore[arg-type]
    assert seen == ["live", "live", "sse", "api", "api"]
    with pytest.raises(ValueError, match="already mounted"):
        dispatcher.mount(Mount("/live", part("again")))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_every_site_has_an_icon_that_browsers_cache(http: aiohttp.ClientSession, method: str) -> None:
    async with http.request(method, "/favicon.ico") as reply:
        assert (reply.status, reply.content_type) == (200, "image/svg+xml")
        assert reply.headers["Cache-Control"] == "public, max-age=86400"
        assert (await reply.read()).startswith(b"<svg") == (method == "GET")


async def test_an_app_may_have_an_icon_of_its_own(database_url: str) -> None:
    shop, icons = Onceward("shop"), APIRouter()
    shop.routes(icons)

    @icons.get("/favicon.ico")
    async def icon() -> str:
        return "ours"

    runtime = Process(shop, Settings(database_url=SecretStr(database_url), port=0), FEATURES)
    await runtime.start({"web"})
    try:
        assert runtime.web is not None
        async with aiohttp.ClientSession(runtime.web.url) as session, session.get("/favicon.ico") as reply:
            assert await reply.json() == "ours"
    finally:
        await runtime.stop()


async def test_slow_requests_of_one_customer_leave_connections_and_end_after_the_limit(
    http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A customer is recognized by its credential until it is known, here by a cookie."""
    monkeypatch.setattr("onceward.db.turns.MOST_WAITING", 6)
    path = "/api/v1/shop/slow"

    async def ask(**headers: str) -> tuple[int, str | None, dict[str, Any]]:
        async with http.get(
            path, headers=headers, params={"seconds": "0" if headers["cookie"] == "b=1" else "30"}
        ) as reply:
            return reply.status, reply.headers.get("retry-after"), await reply.json()

    flood = [asyncio.create_task(ask(cookie="a=1")) for _ in range(8)]
    done, waiting = await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
    assert [each.result()[:2] for each in done] == [(429, "1")] * len(done), (
        "three of eight wait, the others run or are refused"
    )
    assert (await ask(cookie="b=1"))[0] == 200, "while all connections of the flood are busy"
    assert not any(each.done() and each.result()[0] != 429 for each in waiting)
    status, _, body = await next(iter(waiting))
    assert (status, body["title"]) in [(503, "The query took too long"), (429, "Too Many Requests")]
    replies = [(await each)[0] for each in flood]
    assert replies.count(503) >= 3
    assert set(replies) == {503, 429}
