"""Passkeys in Debian's Chromium with its virtual authenticator: add one, sign in with it, confirm with it."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from onceward.db import Database
from onceward.trust.errors import NotAuthenticated
from onceward.trust.organizations import set_member
from onceward.trust.passkeys import Ceremony, Website, begin_using, use_passkey
from onceward.trust.secrets import SecretBox
from onceward.trust.sessions import link_for
from tests.browser import CHROMIUM_ARGUMENTS, NEEDS_CHROMIUM
from tests.trust.conftest import Two
from tests.trust.signing_in import running

BOX = SecretBox(["k" * 40])
PHONE = {"width": 390, "height": 844}


@pytest.fixture
async def page() -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS, headless=True
        )
        context = await chromium.new_context(viewport=PHONE)  # pyright: ignore
        yield await context.new_page()
        await chromium.close()


async def picture(page: Any, name: str) -> None:
    """Keep a picture of the page where somebody wants to look at it."""
    folder = os.environ.get("ONCEWARD_TEST_PICTURES")
    if folder:
        await page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


async def is_narrow(page: Any) -> bool:
    return await page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


async def virtual_authenticator(page: Any) -> Any:
    session = await page.context.new_cdp_session(page)
    await session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    await session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return session


@pytest.mark.browser
@NEEDS_CHROMIUM[1]
async def test_a_passkey_is_added_signs_in_and_confirms(database_url: str, db: Database, two: Two, page: Any) -> None:
    async with db.transaction(role="engine") as tx:
        await set_member(tx, two.a, "ann@example.org", "owner", actor="test")
        link = await link_for(tx, "ann@example.org", actor="test")
    async with running(database_url) as started:
        url = started.replace("127.0.0.1", "localhost")
        await virtual_authenticator(page)
        await page.goto(f"{url}/login?token={link}")
        await picture(page, "link")
        await page.get_by_role("button", name="Log in").click()
        await page.goto(f"{url}/dashboard/account")
        await picture(page, "account")
        assert await is_narrow(page)
        await page.get_by_label("Name of the passkey").fill("my phone")
        await page.get_by_role("button", name="Add a passkey").click()
        await page.get_by_role("heading", name="Recovery codes").wait_for()
        await picture(page, "recovery-codes")
        recovery = (await page.locator("#codes").inner_text()).split()
        assert len(recovery) == 10
        await page.goto(f"{url}/dashboard/account")
        await page.get_by_text("my phone").wait_for()
        await picture(page, "account-with-passkey")
        assert await is_narrow(page)
        await page.get_by_role("button", name="Add an authenticator app").click()
        await page.get_by_role("heading", name="Add an authenticator app").wait_for()
        await picture(page, "totp")
        assert await is_narrow(page)

        # Keys need a new proof, which the passkey gives.
        await db.execute("update onceward.sessions set confirmed_at = confirmed_at - interval '2 hours'")
        await page.goto(f"{url}/dashboard/keys")
        await picture(page, "keys")
        await page.get_by_role("link", name="Confirm that it is you").click()
        await picture(page, "confirm")
        assert await is_narrow(page)
        await page.get_by_role("button", name="Use a passkey").click()
        await page.get_by_role("button", name="Create a key").wait_for()

        # A passkey signs in by itself, and completes the sign-in with a link.
        await page.context.clear_cookies()
        await page.goto(f"{url}/login")
        await picture(page, "login")
        await page.get_by_role("button", name="Sign in with a passkey").click()
        await page.locator("#link-state").wait_for(state="attached")
        async with db.transaction(role="engine") as tx:
            link = await link_for(tx, "ann@example.org", actor="test")
        await page.goto(f"{url}/login?token={link}")
        await page.get_by_role("button", name="Log in").click()
        await page.get_by_role("heading", name="Second factor").wait_for()
        await picture(page, "second-factor")
        await page.get_by_label("Recovery code").fill("wrong")
        await page.get_by_role("button", name="Continue").click()
        await page.get_by_text("The code is wrong").wait_for()
        await picture(page, "second-factor-wrong")
        await page.get_by_role("button", name="Use a passkey").click()
        await page.locator("#link-state").wait_for(state="attached")
        methods = [row["method"] for row in await db.fetch("select method from onceward.sessions order by created_at")]
        assert methods == ["link", "link"], "the sign-in with a link ended the session that the browser had"

        # A passkey that was removed opens nothing, and the page says so.
        await db.execute("delete from onceward.second_factors")
        await page.context.clear_cookies()
        await page.goto(f"{url}/login")
        await page.get_by_role("button", name="Sign in with a passkey").click()
        await page.get_by_text("This passkey was not accepted").wait_for()
        await picture(page, "login-refused")
        failed = "select metadata->>'reason' from onceward.audit_log where action = 'login.failed'"
        assert await db.fetchval(failed) == "the passkey is unknown"


async def test_a_forged_old_or_foreign_ceremony_is_refused(db: Database) -> None:
    sealed = begin_using(BOX, Website("https://a.example", "a.example"))["ceremony"]
    assert Ceremony.open(BOX, sealed, purpose="use").host == "a.example"
    old = Ceremony("use", "c", "https://a.example", "a.example", "", ends_at=1.0).seal(BOX)
    for wrong, purpose in ((sealed, "add"), (old, "use"), ("", "use"), ("x" * 80, "use"), (sealed[:-4], "use")):
        with pytest.raises(NotAuthenticated):
            Ceremony.open(BOX, wrong, purpose=purpose)
    for credential in ("", "[]", "{}", '{"rawId": "AAAA"}', '{"rawId": 7}', "x" * 30_000):
        with pytest.raises(NotAuthenticated):
            async with db.transaction(role="engine") as tx:
                await use_passkey(tx, BOX, sealed=sealed, credential=credential)
