"""Every route of trust, tried with every kind of credential, from the right and from the wrong organization."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import aiohttp
import jwt as pyjwt
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from onceward import Onceward
from onceward.cli.commands import build
from onceward.db import Database
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.trust import record, record_metric
from onceward.trust.identity import Identity
from onceward.trust.keys import NewKey, create_key
from onceward.trust.organizations import add_user, remove_member, set_disabled, set_member
from onceward.trust.session_cookie import SESSION, is_loopback
from onceward.trust.sessions import link_for
from onceward.web.settings import WebSettings
from tests.trust.conftest import Two

JWT_SECRET = "j" * 64


@dataclass
class Site:
    """A running process, and the keys to it."""

    url: str
    http: aiohttp.ClientSession
    keys: dict[str, str]
    two: Two

    async def call(self, method: str, path: str, who: str | None = None, **options: Any) -> tuple[int, Any]:
        headers = {**options.pop("headers", {})}
        if who is not None:
            headers["Authorization"] = f"Bearer {self.keys.get(who, who)}"
        async with self.http.request(
            method, self.url + path, headers=headers, allow_redirects=False, **options
        ) as reply:
            text = await reply.read()
            return reply.status, (await reply.json(content_type=None)) if text[:1] in (b"{", b"[") else text.decode()


@pytest.fixture
async def site(database_url: str, db: Database, two: Two) -> AsyncIterator[Site]:
    settings = Settings(database_url=SecretStr(database_url), port=0, pool_max=5).using(
        WebSettings(jwt_secret=SecretStr(JWT_SECRET))
    )
    keys: dict[str, str] = {}
    async with db.transaction(role="engine") as tx:
        for name, organization in (("a", two.a), ("b", two.b)):
            for scope in ("viewer", "operator", "owner"):
                made = await create_key(tx, name=scope, organization=organization, scopes=[scope], actor="test")
                keys[f"{name}-{scope}"] = made.text
            await record(tx, f"secret.{name}", entity_type="thing", entity_id=name, organization=organization)
            await set_member(tx, organization, f"{name}@example.org", "owner", actor="test")
        keys["admin"] = (await create_key(tx, name="root", organization=None, scopes=["admin"], actor="test")).text
    runtime = Process(Onceward("test"), settings, FEATURES)
    await runtime.start({"web"})
    assert runtime.web is not None
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        yield Site(runtime.web.url, http, keys, two)
    await runtime.stop()


ROUTES = [
    ("GET", "/api/v1/organizations", "viewer"),
    ("POST", "/api/v1/organizations", "admin"),
    ("PUT", "/api/v1/organizations/second-factor", "owner"),
    ("GET", "/api/v1/members", "owner"),
    ("PUT", "/api/v1/members", "owner"),
    ("DELETE", "/api/v1/members/00000000-0000-0000-0000-000000000001", "owner"),
    ("GET", "/api/v1/keys", "owner"),
    ("POST", "/api/v1/keys", "owner"),
    ("DELETE", "/api/v1/keys/ow_aaaaaaaaaa", "owner"),
    ("GET", "/api/v1/secrets", "owner"),
    ("PUT", "/api/v1/secrets/1", "owner"),
    ("DELETE", "/api/v1/secrets/1", "owner"),
    ("GET", "/api/v1/audit", "viewer"),
    ("GET", "/api/v1/audit/verify", "admin"),
    ("GET", "/api/v1/trace/1", "viewer"),
    ("GET", "/api/v1/system-metrics", "admin"),
]
RANK = ["viewer", "operator", "owner", "admin"]


@pytest.mark.parametrize(("method", "path", "needs"), ROUTES)
async def test_every_route_asks_for_its_scope(site: Site, method: str, path: str, needs: str) -> None:
    assert (await site.call(method, path))[0] == 401
    assert (await site.call(method, path, "nonsense"))[0] == 401
    token = pyjwt.encode({"sub": "u", "exp": 2**33, "organization_id": str(site.two.a)}, JWT_SECRET, "HS256")
    assert (await site.call(method, path, token))[0] == 403
    for scope in RANK[:3]:
        status, _ = await site.call(method, path, f"a-{scope}")
        assert (status == 403) == (RANK.index(scope) < RANK.index(needs)), (scope, status)


async def test_no_route_is_left_out_of_the_list_above(site: Site) -> None:
    _, document = await site.call("GET", "/api/v1/openapi.json")
    listed = {(method, re.sub(r"/(0000[^/]*|ow_a+|1)$", "/{}", path)) for method, path, _ in ROUTES}
    ours = {
        (method.upper(), re.sub(r"\{[^}]*\}", "{}", path))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if set(operation.get("tags", ())) & {"access", "evidence"}
    }
    assert ours - {("GET", "/api/v1/me")} == listed


async def test_nothing_of_another_organization_comes_out(site: Site, db: Database) -> None:
    b_key = await db.fetchrow("select * from onceward.api_keys where organization_id = $1 limit 1", site.two.b)
    b_user = await db.fetchval("select user_id from onceward.memberships where organization_id = $1", site.two.b)
    b_entry = await db.fetchval("select id from onceward.audit_log where action = 'secret.b'")
    assert b_key is not None
    for path in ("organizations", "members", "keys", "audit", "audit?entity_id=b", "audit?limit=1000"):
        status, body = await site.call("GET", f"/api/v1/{path}", "a-owner")
        assert status == 200
        assert str(site.two.b) not in str(body), path
        assert "secret.b" not in str(body)
        assert "b@example.org" not in str(body)
    assert (await site.call("GET", f"/api/v1/trace/{b_entry}", "a-owner"))[0] == 404
    assert (await site.call("GET", f"/api/v1/trace/{b_entry}", "b-owner"))[0] == 200
    assert (await site.call("DELETE", f"/api/v1/keys/{b_key['prefix']}", "a-owner"))[0] == 404
    assert (await site.call("DELETE", f"/api/v1/keys/{b_key['key_id']}", "a-owner"))[0] == 404
    assert (await site.call("DELETE", f"/api/v1/members/{b_user}", "a-owner"))[0] == 404
    for wanted in (str(site.two.b), "bolt", "nobody", "x" * 5000):
        status, _ = await site.call("GET", "/api/v1/audit", "a-owner", headers={"X-Organization": wanted})
        assert status == 403


async def test_an_admin_sees_all_or_the_one_they_choose(site: Site, db: Database) -> None:
    await record_metric(db, "worker_timeout")
    assert len((await site.call("GET", "/api/v1/organizations", "admin"))[1]) == 2
    status, members = await site.call("GET", "/api/v1/members", "admin", headers={"X-Organization": "acme"})
    assert [one["email"] for one in members] == ["a@example.org"]
    assert (await site.call("GET", "/api/v1/members", "admin"))[0] == 403
    assert len((await site.call("GET", "/api/v1/system-metrics", "admin"))[1]) == 1
    status, proof = await site.call("GET", "/api/v1/audit/verify", "admin")
    assert (status, proof["ok"]) == (200, True)
    assert (await site.call("GET", "/api/v1/audit/verify?head=x", "admin"))[0] == 400


async def test_a_key_is_made_used_and_revoked_over_http(site: Site) -> None:
    new = {"name": "ci", "scopes": ["viewer"]}
    status, made = await site.call("POST", "/api/v1/keys", "a-owner", json=new)
    assert status == 201
    status, me = await site.call("GET", "/api/v1/me", made["secret"])
    assert (me["organization"], me["scopes"]) == (str(site.two.a), ["viewer"])
    assert (await site.call("DELETE", f"/api/v1/keys/{made['key']['prefix']}", "a-owner"))[0] == 200
    assert (await site.call("GET", "/api/v1/me", made["secret"]))[0] == 401
    for scopes in (["admin"], ["root"], []):
        assert (await site.call("POST", "/api/v1/keys", "a-owner", json={**new, "scopes": scopes}))[0] in (400, 422)
    assert (await site.call("POST", "/api/v1/organizations", "admin", json={"slug": "new"}))[0] == 201
    assert (await site.call("POST", "/api/v1/organizations", "admin", json={"slug": "new"}))[0] == 400
    assert (await site.call("POST", "/api/v1/organizations", "admin", json={"slug": "No!"}))[0] == 400


async def test_guessing_ends_in_429_for_every_kind_of_credential(site: Site) -> None:
    for _ in range(20):
        status, body = await site.call("GET", "/api/v1/me", "ow_" + "a" * 10 + "_" + "b" * 43)
        assert status == 401
        assert "ow_" not in str(body)
    for wrong in ("ow_" + "c" * 10 + "_" + "d" * 43, "a.b.c", ""):
        assert (await site.call("GET", "/api/v1/me", wrong))[0] == 429
    assert (await site.call("GET", "/api/v1/me", headers={"Cookie": f"{SESSION}={'x' * 43}"}))[0] == 429
    assert (await site.call("POST", "/login", data={"token": "x"}))[0] == 429
    assert (await site.call("GET", "/portal?token=owp_guess"))[0] == 429
    assert (await site.call("GET", "/portal/deliveries/1", headers={"Cookie": "onceward_portal=owp_guess"}))[0] == 429


async def test_wrong_credentials_of_live_clients_are_counted(site: Site) -> None:
    answers = [(await site.call("GET", "/live/sse?query=x", f"ow_{'a' * 10}_{'b' * 43}"))[0] for _ in range(21)]
    assert answers == [401] * 20 + [429]
    assert (await site.call("GET", "/api/v1/me", "nonsense"))[0] == 429, "together with those of the API"
    assert (await site.call("GET", "/api/v1/me", "a-owner"))[0] == 200


async def test_wrong_portal_tokens_alone_reach_429(site: Site) -> None:
    answers = [(await site.call("GET", f"/portal?token=owp_{n}"))[0] for n in range(21)]
    assert answers == [401] * 20 + [429]
    assert (await site.call("GET", "/portal"))[0] == 401, "no token at all is not a guess"
    assert (await site.call("GET", "/api/v1/me", "a-owner"))[0] == 200, "neighbours cannot lock anybody out"


async def log_in(site: Site, db: Database, email: str) -> tuple[str, dict[str, str]]:
    async with db.transaction(role="engine") as tx:
        token = await link_for(tx, email, actor="test")
    assert (await site.call("GET", f"/login?token={token}"))[0] == 200
    async with site.http.post(f"{site.url}/login", data={"token": token}, allow_redirects=False) as reply:
        assert reply.status == 303
        cookie = reply.cookies[SESSION]
    assert cookie["httponly"]
    assert cookie["samesite"].lower() == "lax"
    assert (await site.call("POST", "/login", data={"token": token}))[0] == 401
    headers = {"Cookie": f"{SESSION}={cookie.value}"}
    _, me = await site.call("GET", "/api/v1/me", headers=headers)
    return me["csrf_token"], headers


HTTPS = {"Host": "shop.example", "X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}


async def test_a_session_is_never_opened_over_plain_http_except_on_loopback(site: Site, db: Database) -> None:
    async with db.transaction(role="engine") as tx:
        token = await link_for(tx, "a@example.org", actor="test")

    async def open_link(**headers: str) -> aiohttp.ClientResponse:
        return await site.http.post(f"{site.url}/login", data={"token": token}, headers=headers, allow_redirects=False)

    for plain in ({"Host": "shop.example"}, {"Host": "10.0.0.5:8400"}, {"X-Forwarded-For": "203.0.113.9"}):
        reply = await open_link(**plain)
        assert reply.status == 403, plain
        assert "plain http" in await reply.text()
        assert not reply.cookies
    reply = await open_link(**HTTPS)
    assert reply.status == 303, "the refused attempts did not use up the link"
    cookie = reply.cookies[f"__Host-{SESSION}"]
    assert cookie["secure"]
    assert cookie["httponly"]
    assert cookie["path"] == "/"
    assert not cookie["domain"]

    async def status(name: str, **headers: str) -> int:
        headers["Cookie"] = f"{name}={cookie.value}"
        return (await site.call("GET", "/api/v1/me", headers=headers))[0]

    assert await status(f"__Host-{SESSION}", **HTTPS) == 200
    assert await status(SESSION, **HTTPS) == 401, "another host of the domain may have set a name without the prefix"
    assert await status(SESSION) == 200, "on loopback the name has no prefix"
    async with site.http.get(
        f"{site.url}/", headers={**HTTPS, "Cookie": f"__Host-{SESSION}=wrong"}, allow_redirects=False
    ) as page:
        gone = page.cookies[f"__Host-{SESSION}"]
        assert gone["max-age"] == "0"
        assert gone["secure"], "browsers ignore the removal of a __Host- cookie without Secure"


@pytest.mark.parametrize("host", ["localhost:8400", "127.0.0.1", "[::1]:8400", "0.0.0.0:8400", "app.localhost"])
def test_a_browser_on_this_machine_is_recognised_by_the_host_that_it_asked_for(host: str) -> None:
    assert is_loopback({"host": host})
    assert not is_loopback({"host": host, "x-forwarded-for": "203.0.113.9"})


@pytest.mark.parametrize("host", ["localhost.example", "127.0.0.1.example:80", "10.0.0.5", "[2001:db8::1]:8400", ""])
def test_every_other_host_may_be_on_the_network(host: str) -> None:
    assert not is_loopback({"host": host})


async def test_a_key_ends_with_the_access_of_the_person_who_made_it(site: Site, db: Database) -> None:
    person = await db.fetchval("select user_id from onceward.users where email = 'a@example.org'")

    async def made(identity: Identity, scopes: list[str], organization: UUID | None) -> NewKey:
        async with db.transaction(role="engine") as tx:
            return await create_key(tx, name="k", organization=organization, scopes=scopes, actor=identity)

    session = Identity("session", site.two.a, frozenset({"owner"}), sub=str(person))
    owner, viewer = await made(session, ["owner"], site.two.a), await made(session, ["viewer"], site.two.a)
    heir = await made(
        Identity("key", site.two.a, frozenset({"owner"}), sub=str(owner.key.key_id)), ["viewer"], site.two.a
    )
    assert owner.key.owner_id == viewer.key.owner_id == heir.key.owner_id == person

    async def statuses() -> list[int]:
        return [(await site.call("GET", "/api/v1/me", each.text))[0] for each in (owner, viewer, heir)]

    assert await statuses() == [200, 200, 200]
    async with db.transaction(role="engine") as tx:
        await set_member(tx, site.two.a, "a@example.org", "viewer", actor="test")
    assert await statuses() == [401, 200, 200]
    async with db.transaction(role="engine") as tx:
        await remove_member(tx, site.two.a, person, actor="test")
    assert await statuses() == [401, 401, 401]
    async with db.transaction(role="engine") as tx:
        await set_member(tx, site.two.a, "a@example.org", "owner", actor="test")
        await set_disabled(tx, "a@example.org", disabled=True, actor="test")
    assert await statuses() == [401, 401, 401]
    assert (await site.call("GET", "/api/v1/me", "a-owner"))[0] == 200, "a key of nobody stays"


async def test_a_key_expires_after_a_year_unless_its_creator_says_otherwise(site: Site, db: Database) -> None:
    new = {"name": "x", "scopes": ["viewer"]}
    _, made = await site.call("POST", "/api/v1/keys", "a-owner", json=new)
    until = datetime.fromisoformat(made["key"]["expires_at"])
    assert timedelta(days=364) < until - datetime.now(UTC) < timedelta(days=366)
    _, endless = await site.call("POST", "/api/v1/keys", "a-owner", json={**new, "expires_at": None})
    assert endless["key"]["expires_at"] is None


async def test_what_a_session_changes_needs_its_csrf_token(site: Site, db: Database) -> None:
    csrf, cookie = await log_in(site, db, "a@example.org")
    _, other = await log_in(site, db, "b@example.org")
    new = {"name": "x", "scopes": ["viewer"]}
    path = "/api/v1/keys"
    assert (await site.call("GET", path, headers=cookie))[0] == 200
    assert (await site.call("POST", path, headers=cookie, json=new))[0] == 403
    assert (await site.call("POST", path, headers={**other, "X-CSRF-Token": csrf}, json=new))[0] == 403
    ours = {**cookie, "X-CSRF-Token": csrf}
    assert (await site.call("POST", path, headers={**ours, "Origin": "https://evil.example"}, json=new))[0] == 403
    assert (await site.call("POST", path, headers={**ours, "Origin": site.url}, json=new))[0] == 201
    assert (await site.call("POST", "/logout", headers=cookie))[0] == 403
    assert (await site.call("POST", "/logout", headers=cookie, data={"csrf_token": csrf}))[0] == 303
    assert (await site.call("GET", path, headers=cookie))[0] == 401


async def test_a_session_acts_for_the_organizations_of_its_person_only(site: Site, db: Database) -> None:
    _, cookie = await log_in(site, db, "a@example.org")
    assert (await site.call("GET", "/api/v1/audit", headers={**cookie, "X-Organization": "acme"}))[0] == 200
    assert (await site.call("GET", "/api/v1/audit", headers={**cookie, "X-Organization": "bolt"}))[0] == 403
    async with db.transaction(role="engine") as tx:
        await add_user(tx, "nobody@example.org", actor="test")
    _, alone = await log_in(site, db, "nobody@example.org")
    assert (await site.call("GET", "/api/v1/audit", headers=alone))[0] == 403


async def test_another_site_cannot_log_somebody_in(site: Site, db: Database) -> None:
    async with db.transaction(role="engine") as tx:
        token = await link_for(tx, "a@example.org", actor="test")
    there = {"Origin": "https://evil.example"}
    assert (await site.call("POST", "/login", headers=there, data={"token": token}))[0] == 403
    assert (await site.call("POST", "/login", headers={"Origin": site.url}, data={"token": token}))[0] == 303


async def test_the_login_page_shows_no_markup_from_its_address(site: Site) -> None:
    _, page = await site.call("GET", "/login?token=%22%3E%3Cscript%3E")
    assert "<script>" not in page


async def test_the_first_start_offers_a_login_link_until_it_was_used(database_url: str) -> None:
    settings = Settings(database_url=SecretStr(database_url), port=0, pool_max=5)
    offered: list[str | None] = []
    for use in (True, False):
        runtime = Process(Onceward("test"), settings, FEATURES)
        await runtime.start()
        offered.append(runtime.login_url)
        if use and runtime.login_url is not None:
            url, _, token = runtime.login_url.partition("?token=")
            async with (
                aiohttp.ClientSession() as http,
                http.post(url, data={"token": token}, allow_redirects=False) as reply,
            ):
                assert reply.status == 303
        await runtime.stop()
    assert offered[0] is not None
    assert offered[1] is None


async def test_a_login_link_from_the_command_line_leads_to_the_port_that_was_chosen_at_start(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(database_url=SecretStr(database_url), port=0, pool_max=5)
    runtime = Process(Onceward("test"), settings, FEATURES)
    await runtime.start()
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    try:
        assert runtime.web is not None
        command = ("users", "login-link", "admin@localhost")
        printed = await asyncio.to_thread(CliRunner().invoke, build(FEATURES), command)
        url, _, token = printed.stdout.strip().partition("?token=")
        assert url == f"{runtime.web.url}/login"
        async with aiohttp.ClientSession() as http:
            async with http.post(url, data={"token": token}, allow_redirects=False) as reply:
                assert reply.status == 303
            async with http.get(url) as reply:
                assert "@" not in await reply.text(), "the login page shows no address"
    finally:
        await runtime.stop()


async def test_a_process_that_only_serves_offers_no_login_link(database_url: str) -> None:
    runtime = Process(Onceward("test"), Settings(database_url=SecretStr(database_url), port=0, pool_max=5), FEATURES)
    await runtime.start({"web"})
    try:
        assert runtime.login_url is None
        assert await runtime.database.fetchval("select count(*) from onceward.login_links") == 0
    finally:
        await runtime.stop()


async def test_adding_a_disabled_person_to_an_organization_does_not_enable_them(site: Site, db: Database) -> None:
    async with db.transaction(role="engine") as tx:
        await add_user(tx, "gone@example.org", admin=True, actor="test")
        await set_disabled(tx, "gone@example.org", disabled=True, actor="test")
    status, answer = await site.call(
        "PUT", "/api/v1/members", "a-owner", json={"email": "Gone@example.org", "role": "viewer"}
    )
    assert status == 409
    assert "disabled" in str(answer)
    row = await db.fetchrow("select disabled_at, admin from onceward.users where email = 'gone@example.org'")
    assert row is not None
    assert row["disabled_at"] is not None
    assert not await db.fetchval(
        "select exists (select from onceward.memberships join onceward.users using (user_id) where email like 'gone%')"
    )
    async with db.transaction(role="engine") as tx:
        await set_disabled(tx, "gone@example.org", disabled=False, actor="test")
        await add_user(tx, "gone@example.org", actor="test")


async def test_a_refusal_does_not_reveal_whether_an_organization_exists(site: Site, db: Database) -> None:
    async with db.transaction(role="engine") as tx:
        link = await link_for(tx, "a@example.org", actor="test")
    async with site.http.post(f"{site.url}/login", data={"token": link}, allow_redirects=False) as reply:
        session = reply.cookies[SESSION].value

    async def refusal(wanted: str, **options: Any) -> tuple[int, str]:
        headers = {**options.pop("headers", {}), "X-Organization": wanted}
        status, body = await site.call("GET", "/api/v1/me", options.pop("who", None), headers=headers, **options)
        return status, body["detail"].replace(wanted, "...")

    for who in (
        {"who": "a-owner"},
        {"cookies": {SESSION: session}},
        {"cookies": {SESSION: "x" * len(session)}},
    ):
        assert await refusal("bolt", **who) == await refusal("nowhere", **who)
        assert await refusal(str(site.two.b), **who) == await refusal(str(site.two.b)[::-1], **who)
    assert (await refusal("nowhere", who="admin"))[0] == 403
