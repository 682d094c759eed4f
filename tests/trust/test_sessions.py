"""What a person can do with their sessions, and when a session needs more than its cookie."""

from __future__ import annotations

import re

import pyotp
import pytest

from onceward.db import Database
from onceward.trust.organizations import add_user, set_member
from onceward.web.login import describe_browser
from tests.trust.conftest import Two
from tests.trust.signing_in import AGENT, Browser, browser, running

LATER = "update onceward.sessions set {} = {} - interval '2 hours'"


async def people(db: Database, two: Two) -> None:
    async with db.transaction(role="engine") as tx:
        await set_member(tx, two.a, "ann@example.org", "owner", actor="test")
        await set_member(tx, two.a, "bob@example.org", "viewer", actor="test")


async def later(db: Database, column: str) -> None:
    await db.execute(LATER.format(column, column))


async def actions(db: Database) -> list[str]:
    return [row[0] for row in await db.fetch("select action from onceward.audit_log order by id")]


async def add_app(person: Browser) -> tuple[pyotp.TOTP, list[str]]:
    """Add an authenticator app, and return it with the recovery codes."""
    await person.get("/dashboard/account")
    page = await person.post("/dashboard/account/totp", name="my phone")
    app = pyotp.TOTP(re.search(r'class="mono">([A-Z2-7 ]+)<', page)[1].replace(" ", ""))
    assert "<svg" in page
    page = await person.post("/dashboard/account/totp/confirm", code=app.now())
    return app, re.findall(r"\b[a-z0-9]{4}(?:-[a-z0-9]{4}){3}\b", page)


async def forget_steps(db: Database) -> None:
    """Let the next code be a new one, as it is half a minute later."""
    await db.execute("update onceward.second_factors set last_step = 0")


async def test_a_person_lists_and_ends_sessions(database_url: str, db: Database, two: Two) -> None:
    await people(db, two)
    async with running(database_url) as url, browser(url) as one, browser(url) as other, browser(url) as bob:
        for person, email in ((one, "ann@example.org"), (other, "ann@example.org"), (bob, "bob@example.org")):
            await person.log_in(db, email)
            assert (person.status, person.path) == (200, "/")
        page = await one.get("/dashboard/account")
        assert page.count("Firefox on Linux") == 2, "two sessions of Ann, and none of Bob"
        assert page.count("this one") == 2  # the mark, and the button that ends this one too
        [ended] = re.findall(r'name="session" value="([^"]+)"', page)
        await bob.get("/dashboard/account")
        await bob.post("/dashboard/account/sessions/end", session=ended)
        assert bob.status == 404, "nobody ends a session of somebody else"
        await one.post("/dashboard/account/sessions/end", session=ended)
        await other.get("/dashboard/account")
        assert other.path == "/login"
        await other.log_in(db, "ann@example.org")
        assert "1 other session has ended" in await one.post("/dashboard/account/sessions/end-all")
        await other.get("/")
        assert other.path == "/login"
        await one.post("/dashboard/account/sessions/end-all", also="this")
        assert one.path == "/login"
        await bob.get("/")
        assert bob.path == "/"
        await bob.post("/logout")
        written = await actions(db)
        assert {"session.opened", "session.ended", "session.ended_all", "session.closed"} <= set(written)


async def test_an_idle_session_ends_and_an_open_page_does_not_keep_it(
    database_url: str, db: Database, two: Two
) -> None:
    await people(db, two)
    async with running(database_url, session_idle_minutes=30) as url, browser(url) as ann:
        await ann.log_in(db, "ann@example.org")
        await db.execute("update onceward.sessions set last_seen_at = last_seen_at - interval '20 minutes'")
        await ann.get("/dashboard/account")
        assert ann.path == "/dashboard/account"
        idle = await db.fetchval("select onceward.now() - last_seen_at < interval '1 minute' from onceward.sessions")
        assert idle, "a request counts as use"
        await later(db, "last_seen_at")
        await ann.get("/dashboard/account")
        assert ann.path == "/login"


async def test_keys_and_secrets_need_a_recent_proof(database_url: str, db: Database, two: Two) -> None:
    await people(db, two)
    async with running(database_url) as url, browser(url) as ann:
        await ann.log_in(db, "ann@example.org")
        new = {"name": "ci", "scope": "viewer", "days": "30"}
        await ann.get("/dashboard/keys")
        assert "Copy the key now" in await ann.post("/dashboard/keys", **new)
        app, codes = await add_app(ann)
        assert len(codes) == 10
        await later(db, "confirmed_at")
        assert "Confirm that it is you to create a key" in await ann.get("/dashboard/keys")
        await ann.post("/dashboard/keys", **new)
        assert ann.path == "/login/confirm", "the form leads to the proof"
        key = {"name": "ci", "scopes": ["viewer"]}
        assert (await ann.api("POST", "/api/v1/keys", json=key))[0] == 403
        assert (await ann.api("PUT", "/api/v1/secrets/stripe.secret_key", json={"value": "sk_x"}))[0] == 403
        assert (await ann.api("GET", "/api/v1/keys"))[0] == 200
        await ann.post("/login/confirm", code="000000", back="/dashboard/keys")
        assert (ann.status, "The code is wrong" in ann.text) == (403, True)
        await forget_steps(db)
        await ann.post("/login/confirm", code=app.now(), back="/dashboard/keys")
        assert ann.path == "/dashboard/keys"
        assert (await ann.api("POST", "/api/v1/keys", json=key))[0] == 201
        await ann.post("/login/confirm", code=codes[0], back="https://evil.example/")
        assert ann.path == "/", "no proof leads to another site"


async def test_a_second_factor_completes_the_sign_in_and_each_code_works_once(
    database_url: str, db: Database, two: Two
) -> None:
    await people(db, two)
    async with running(database_url) as url, browser(url) as ann, browser(url) as old, browser(url) as new:
        await old.log_in(db, "ann@example.org")
        await ann.log_in(db, "ann@example.org")
        app, codes = await add_app(ann)
        assert await ann.get("/dashboard/account")
        assert "my phone" in ann.text
        await old.get("/")
        assert old.path == "/login/second-factor", "a session from before needs the factor too"
        await new.log_in(db, "ann@example.org")
        assert new.path == "/login/second-factor"
        pending = await new.api("GET", "/api/v1/me")
        assert pending[0] == 401
        assert "second factor" in pending[1]["detail"]
        for path in ("/dashboard/account", "/dashboard/keys"):
            await new.get(path)
            assert new.path == "/login/second-factor", "a pending session shows and changes nothing"
        await new.post("/dashboard/account/totp", name="of a thief")
        assert new.path == "/login/second-factor"
        before = {cookie.value for cookie in new.http.cookie_jar}
        await forget_steps(db)
        code = app.now()
        await new.post("/login/second-factor", code=f"{code[:3]} {code[3:]}")
        assert new.path == "/"
        assert before.isdisjoint(cookie.value for cookie in new.http.cookie_jar), "the session has a new token"
        await old.get("/login/second-factor")
        await old.post("/login/second-factor", code=code)
        assert old.status == 403, "a code works once"
        await old.post("/login/second-factor", code=codes[0].upper())
        assert old.path == "/"
        async with browser(url) as third:
            await third.log_in(db, "ann@example.org")
            await third.post("/login/second-factor", code=codes[0])
            assert third.status == 403, "so does a recovery code"
            for _ in range(10):
                await third.post("/login/second-factor", code="000000")
            await forget_steps(db)
            await third.post("/login/second-factor", code=app.now())
            assert third.status == 429, "after ten wrong codes a right one is refused too"
        stored = await db.fetchval("select secret from onceward.second_factors where confirmed_at is not null")
        assert app.secret.encode() not in stored
        written = await actions(db)
        assert {"second_factor.added", "second_factor.failed", "recovery_code.used"} <= set(written)


async def test_an_owner_requires_a_second_factor_with_a_button(database_url: str, db: Database, two: Two) -> None:
    await people(db, two)
    requirement = "select second_factor_required from onceward.organizations where organization_id = $1"
    path, press = "/dashboard/members/second-factor", {"required": "yes", "confirmed": "yes"}
    async with running(database_url) as url, browser(url) as ann, browser(url) as bob:
        await bob.log_in(db, "bob@example.org")
        await bob.get("/dashboard/members")
        assert bob.status == 403
        await bob.post(path, **press)
        assert bob.status == 403, "a viewer requires nothing of others"
        await ann.log_in(db, "ann@example.org")
        await add_app(ann)
        page = await ann.get("/dashboard/members")
        assert "bob@example.org" in page
        assert "1 of 2 members has none" in page
        await ann.post(path, required="yes")
        assert (ann.status, await db.fetchval(requirement, two.a)) == (400, False), "not confirmed"
        await later(db, "confirmed_at")
        assert "Confirm that it is you" in await ann.get("/dashboard/members")
        await ann.post(path, **press)
        assert (ann.path, await db.fetchval(requirement, two.a)) == ("/login/confirm", False)
        await db.execute("update onceward.sessions set confirmed_at = onceward.now()")
        page = await ann.post(path, **press)
        assert (ann.status, ann.path) == (200, "/dashboard/members")
        assert "A second factor is now required." in page
        assert await db.fetchval(requirement, two.b) is False
        await bob.get("/")
        assert bob.path == "/dashboard/account", "who has none adds one first"
        await ann.post(path, required="no", confirmed="yes")
        await bob.get("/")
        assert bob.path == "/"
    entries = await db.fetch(
        "select actor, organization_id, changes from onceward.audit_log where action = 'organization.second_factor_required'"
        " order by id"
    )
    assert [row["changes"] for row in entries] == [{"required": True}, {"required": False}]
    assert {row["organization_id"] for row in entries} == {two.a}
    ann_id = await db.fetchval("select user_id from onceward.users where email = 'ann@example.org'")
    assert all(str(ann_id) in row["actor"] for row in entries)


@pytest.mark.parametrize("by", ["instance", "organization"])
async def test_a_required_second_factor_must_be_added_before_anything_else(
    database_url: str, db: Database, two: Two, by: str
) -> None:
    await people(db, two)
    settings = {"second_factor": "required"} if by == "instance" else {}
    async with running(database_url, **settings) as url, browser(url) as ann:
        await ann.log_in(db, "ann@example.org")
        if by == "organization":
            await ann.get("/dashboard/account")
            assert (await ann.api("PUT", "/api/v1/organizations/second-factor", json={"required": True}))[0] == 204
            await ann.get("/")
        assert ann.path == "/dashboard/account"
        assert "A second factor is required here" in ann.text
        for path in ("/dashboard/keys", "/"):
            await ann.get(path)
            assert ann.path == "/dashboard/account"
        assert (await ann.api("GET", "/api/v1/members"))[0] == 401
        await add_app(ann)
        await ann.get("/dashboard/keys")
        assert ann.path == "/dashboard/keys"
        if by == "organization":
            async with db.transaction(role="engine") as tx:
                await add_user(tx, "root@example.org", admin=True, actor="test")
            async with browser(url) as root:
                await root.log_in(db, "root@example.org")
                assert root.path == "/dashboard/account", "an administrator reads the organization's rows as well"


@pytest.mark.parametrize(
    ("agent", "described"),
    [
        (AGENT, "Firefox on Linux"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Version/17.0 Mobile Safari/604.1", "Safari on iPhone"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit Chrome/120.0 Safari/537.36 Edg/120.0", "Edge on Windows"),
        ("curl/8.1<script>", "curl/8.1script"),
        ("", "Unknown browser"),
    ],
)
def test_a_browser_is_described_in_words(agent: str, described: str) -> None:
    assert describe_browser(agent) == described
