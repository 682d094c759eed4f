"""The API and the consumer page, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from pydantic import SecretStr

from onceward import Onceward
from onceward.db import Database
from onceward.outbox.catalogue import EventType, save
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing import until
from onceward.testing.simulators import CustomerEndpoint
from onceward.trust import create_organization
from onceward.trust.keys import create_key
from onceward.trust.settings import TrustSettings
from onceward.work.settings import WorkSettings


@pytest.fixture
async def runtime(database_url: str) -> AsyncIterator[Process]:
    app = Onceward("shop")
    app.event_type("order.paid", sample={"id": 1}, description="An order was paid.")
    settings = Settings(
        database_url=SecretStr(database_url),
        port=0,
        pool_max=8,
        allow_loopback_endpoints=True,
        shutdown_grace_s=0.1,
    ).using(
        TrustSettings(secret_key=SecretStr("a key that is long enough for the tests")),
        WorkSettings(poll_interval_ms=50),
    )
    runtime = Process(app, settings, FEATURES)
    await runtime.start({"web", "worker"})
    yield runtime
    await runtime.stop()


class Client:
    """One organization's key."""

    def __init__(self, session: aiohttp.ClientSession, key: str) -> None:
        self._session = session
        self._headers = {"Authorization": f"Bearer {key}"}

    async def __call__(self, method: str, path: str, *, key: str | None = None, **json: Any) -> tuple[int, Any]:
        headers = dict(self._headers) if key is None else {**self._headers, "Idempotency-Key": key}
        body = json if method != "GET" else None
        async with self._session.request(method, f"/api/v1{path}", headers=headers, json=body) as response:
            text = await response.text()
            return response.status, (await response.json(content_type=None)) if text else None


@pytest.fixture
async def session(runtime: Process) -> AsyncIterator[aiohttp.ClientSession]:
    assert runtime.web is not None
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(runtime.web.url, cookie_jar=jar) as session:
        yield session


async def client_for(db: Database, session: aiohttp.ClientSession, slug: str, scope: str = "owner") -> Client:
    async with db.transaction(role="engine") as tx:
        row = await tx.fetchrow("select organization_id from onceward.organizations where slug = $1", slug)
        id = row["organization_id"] if row else (await create_organization(tx, slug, actor="test")).organization_id
        made = await create_key(tx, name="test", organization=id, scopes=[scope], actor="test")
    return Client(session, made.text)


async def test_an_endpoint_registered_over_the_api_gets_what_is_published_over_it(
    db: Database, session: aiohttp.ClientSession, customer: CustomerEndpoint
) -> None:
    ours, theirs = await client_for(db, session, "ours"), await client_for(db, session, "theirs")
    status, made = await ours("POST", "/endpoints", url=customer.hook_url, events=["order.paid"])
    assert status == 201
    assert made["secret"].startswith("whsec_")
    customer.secret = made["secret"]
    id = made["endpoint"]["endpoint_id"]
    status, first = await ours("POST", "/publish", key="k1", type="order.paid", data={"n": 1})
    assert (status, first["deliveries"], first["duplicate"]) == (201, 1, False)
    status, again = await ours("POST", "/publish", key="k1", type="order.paid", data={"n": 1})
    assert (status, again["message_id"], again["duplicate"]) == (200, first["message_id"], True)
    status, refused = await ours("POST", "/publish", key="k1", type="order.paid", data={"n": 2})
    assert (status, refused["type"]) == (422, "key-reused")
    assert (await ours("POST", "/publish", type="order.payed", data={}))[0] == 422

    async def delivered() -> Any:
        _, rows = await ours("GET", "/deliveries?status=success")
        return rows

    [row] = await until(delivered)
    assert row["next_attempt_at"] is None, "nothing is due any more"
    status, shown = await ours("GET", f"/deliveries/{row['id']}")
    assert shown["attempts"][0]["status"] == 200
    assert '"n":1' in shown["body"]
    assert list(customer.unique) == [first["message_id"]]

    assert (await theirs("GET", "/endpoints"))[1] == []
    assert (await theirs("GET", "/deliveries"))[1] == []
    assert (await theirs("GET", f"/deliveries/{row['id']}"))[0] == 404
    assert (await theirs("POST", f"/deliveries/{row['id']}/resend"))[0] == 404
    assert (await theirs("PATCH", f"/endpoints/{id}", description="x"))[0] == 404
    viewer = await client_for(db, session, "ours", "viewer")
    assert (await viewer("POST", "/endpoints", url=customer.hook_url, events=["*"]))[0] == 403
    assert (await viewer("POST", "/publish", type="order.paid", data={}))[0] == 403


async def test_every_verb_of_an_endpoint_works_over_the_api(
    db: Database, session: aiohttp.ClientSession, customer: CustomerEndpoint
) -> None:
    ours = await client_for(db, session, "ours")
    status, bad = await ours("POST", "/endpoints", url="https://10.0.0.1/", events=["*"])
    assert (status, bad["errors"][0]["field"]) == (422, "url")
    assert "private" in bad["detail"]
    _, made = await ours("POST", "/endpoints", url=customer.hook_url, events=["*"], ed25519=True)
    id, organization = made["endpoint"]["endpoint_id"], made["endpoint"]["organization_id"]
    assert (await ours("PATCH", f"/endpoints/{id}", description="ours", max_in_flight=2))[1]["max_in_flight"] == 2
    assert (await ours("PATCH", f"/endpoints/{id}", url=None))[0] == 422
    assert (await ours("POST", f"/endpoints/{id}/secret", overlap_s=60))[1]["secret"] != made["secret"]
    async with session.get(f"/api/v1/webhook-keys/{organization}") as response:
        assert (await response.json())["keys"][0].startswith("whpk_")
    assert (await ours("POST", f"/endpoints/{id}/test"))[0] == 202
    assert (await ours("POST", f"/endpoints/{id}/disable"))[1]["active"] is False
    assert (await ours("POST", f"/endpoints/{id}/test"))[0] == 422
    assert (await ours("POST", f"/endpoints/{id}/enable"))[1]["active"] is True
    status, resend = await ours("POST", f"/endpoints/{id}/recover", since="2020-01-01T00:00:00Z")
    assert (status, resend["state"]) == (202, "running")
    assert (await ours("POST", f"/resends/{resend['id']}/cancel"))[1]["state"] in ("cancelled", "done")
    assert (await ours("POST", "/deliveries/replay", since="2020-01-01T00:00:00Z", types=["order.paid"]))[0] == 202
    assert len((await ours("GET", "/resends"))[1]) == 2
    types = {each["name"]: each for each in (await ours("GET", "/event-types"))[1]}
    assert types["order.paid"]["description"] == "An order was paid."
    assert (await ours("PUT", "/event-types/x.y", description="x"))[0] == 403
    assert (await ours("DELETE", f"/endpoints/{id}"))[0] == 204
    assert (await ours("GET", f"/endpoints/{id}"))[0] == 404


async def test_a_type_declared_over_the_api_can_be_published_beside_those_of_apps(
    db: Database, session: aiohttp.ClientSession
) -> None:
    ours = await client_for(db, session, "ours")
    status, problem = await ours("POST", "/publish", type="stock.low", data={"n": 1})
    assert (status, "PUT /api/v1/event-types" in str(problem)) == (422, True)
    async with db.transaction(role="engine") as tx:
        await save(tx, [EventType("stock.low", sample={"n": 1}), EventType("others.own", declared_by="other_app")])
    assert (await ours("POST", "/publish", type="stock.low", data={"n": 1}))[0] == 201
    assert (await ours("POST", "/publish", type="order.paid", data={"id": 1}))[0] == 201
    # Its model is known only to the processes of the app that declared it.
    assert (await ours("POST", "/publish", type="others.own", data={}))[0] == 422


async def test_a_customer_sees_and_resends_on_the_consumer_page_what_the_token_allows(
    db: Database, session: aiohttp.ClientSession, customer: CustomerEndpoint
) -> None:
    ours = await client_for(db, session, "ours")
    _, mine = await ours("POST", "/endpoints", url=f"{customer.hook_url}/mine", events=["*"])
    _, other = await ours("POST", "/endpoints", url=f"{customer.hook_url}/other", events=["*"])
    await ours("POST", "/publish", type="order.paid", data={"n": "<b>1</b>"})

    async def delivered() -> Any:
        _, rows = await ours("GET", "/deliveries?status=success")
        return rows if len(rows) == 2 else None

    rows = {row["endpoint_id"]: row["id"] for row in await until(delivered)}
    mine_id, other_id = mine["endpoint"]["endpoint_id"], other["endpoint"]["endpoint_id"]
    async with session.get("/portal") as response:
        assert response.status == 401
    foreign = "6f1c0c4e-5a43-4c0e-9d0b-2b7a1f6f7a01"
    await db.execute(
        "insert into onceward.endpoints (endpoint_id, url, events) values ($1, 'https://x', '{*}')", foreign
    )
    for wrong in (foreign, "00000000-0000-4000-8000-000000000001"):
        status, problem = await ours("POST", "/endpoints/portal", endpoint_ids=[mine_id, wrong])
        assert (status, problem["errors"][0]["field"]) == (422, "endpoint_ids")
        assert wrong in problem["errors"][0]["reason"]
    _, access = await ours("POST", "/endpoints/portal", endpoint_ids=[mine_id])
    token = access["url"].partition("token=")[2]
    async with session.get(f"/portal?token={token}") as response:
        page = await response.text()
        assert response.status == 200
        assert token not in page
    assert "/mine" in page
    assert "/other" not in page
    async with session.get(f"/portal/deliveries/{rows[mine_id]}") as response:
        page = await response.text()
    assert "&lt;b&gt;" in page
    assert "<b>1" not in page
    for path in (f"/portal/deliveries/{rows[other_id]}", f"/portal/endpoints/{other_id}"):
        async with session.get(path) as response:
            assert response.status == 403
    async with session.post(f"/portal/deliveries/{rows[mine_id]}/resend", data={"csrf": "guess"}) as response:
        assert response.status == 403
    csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
    async with session.post(f"/portal/deliveries/{rows[mine_id]}/resend", data={"csrf": csrf}) as response:
        assert response.status == 200

    async def again() -> bool:
        return sum(one.path.endswith("/mine") for one in customer.received) == 2

    await until(again)
    [listed] = (await ours("GET", "/portal-tokens"))[1]
    assert (listed["id"], listed["endpoint_ids"]) == (access["id"], [mine_id])
    assert token not in str(listed)
    assert (await ours("DELETE", f"/portal-tokens/{uuid4()}"))[0] == 404
    assert (await ours("DELETE", f"/portal-tokens/{access['id']}"))[0] == 204
    async with session.get("/portal") as response:
        assert response.status == 401


async def test_only_the_sites_of_the_link_may_frame_the_portal_which_looks_like_its_organization(
    db: Database, session: aiohttp.ClientSession
) -> None:
    ours = await client_for(db, session, "ours")
    wrong = ("https://app.example/path", "http://app.example", "app.example", "https://a.example; script-src *", "*")
    for site in wrong:
        status, problem = await ours("POST", "/endpoints/portal", embed_at=[site])
        assert (status, problem["errors"][0]["field"]) == (422, "embed_at"), site
    _, access = await ours("POST", "/endpoints/portal", embed_at=["https://App.example/", "http://localhost:3000"])
    token = access["url"].partition("token=")[2]
    async with session.get(f"/portal?token={token}") as response:
        page = await response.text()
        policy = response.headers["Content-Security-Policy"]
        assert policy.endswith("frame-ancestors http://localhost:3000 https://app.example")
        assert "X-Frame-Options" not in response.headers
    organization = await db.fetchval("select organization_id from onceward.organizations where slug = 'ours'")
    assert f"/look/organizations/{organization}.css" in page
    _, access = await ours("POST", "/endpoints/portal")
    async with session.get(f"/portal?token={access['url'].partition('token=')[2]}") as response:
        assert response.headers["Content-Security-Policy"].endswith("frame-ancestors 'none'")
        assert response.headers["X-Frame-Options"] == "DENY"
