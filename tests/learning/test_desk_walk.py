"""The desk of a school in Chromium, on a phone and on a desktop: edit a cohort and its sessions, enter attendance, grade.

With ONCEWARD_TEST_ARTIFACTS=<folder> the test writes pictures of the pages to that folder.
"""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from onceward.trust.organizations import set_member
from onceward.trust.sessions import link_for
from onceward_apps.learning import submissions
from onceward_apps.learning.cohorts import NewSession
from onceward_apps.learning.store import curriculum, views
from tests.browser import CHROMIUM_ARGUMENTS, NEEDS_CHROMIUM
from tests.learning.server import Server, running
from tests.learning.test_browser import DEVICES, TIMEOUT_MS

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow, pytest.mark.timeout(240)]

LONG = "Data Engineering for Administrators of Large and Old Installations"


async def taught(server: Server) -> None:
    """A running cohort with two students, a session that has ended, one to come, and work to grade."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    times = [now + timedelta(days=2), now + timedelta(days=9)]
    planned = [
        NewSession(title=f"Session {n}", starts_at=at, ends_at=at + timedelta(hours=1)) for n, at in enumerate(times, 1)
    ]
    cohort = await server.cohort(LONG, sessions=planned, description="Four weeks, two evenings a week.")
    async with server.engine.transaction(organization=server.organization) as tx:
        item = (await curriculum.add_item(tx, cohort, kind="assignment", title="A pipeline", graded=True))["id"]
        await curriculum.add_item(tx, cohort, kind="lesson", title="First steps", body="Read this.")
    ada, _ = [await server.enrol(cohort, name) for name in ("Ada", "Bob")]
    await server.begin(cohort)
    await server.db.execute(
        "update learning.sessions set starts_at = now() - interval '2 hours', ends_at = now() - interval '1 hour'"
        " where title = 'Session 1'"
    )
    await server.db.execute("update learning.cohorts set starts_at = now() - interval '3 hours'")
    async with server.engine.transaction(organization=server.organization) as tx:
        await submissions.hand_in(
            tx, await views.get_enrollment(tx, ada), item, "It reads the file twice.\n" * 20 + "The end."
        )


async def sign_in(server: Server, page: Any) -> None:
    email = "olga@riverside.example"
    async with server.db.transaction(role="engine") as tx:
        await set_member(tx, server.organization, email, "operator", actor="test")
        token = await link_for(tx, email, actor="test")
    await page.goto(f"{server.url}/login?token={token}")
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_url(server.url + "/")


@pytest.mark.acceptance("editCohort", "changeSessions", "attendanceChecklist", "gradeSubmissions")
@pytest.mark.parametrize("device", DEVICES)
async def test_an_operator_edits_a_cohort_and_its_sessions_and_grades(
    database_url: str, tmp_path: Path, device: str
) -> None:
    from axe_core_python.async_playwright import Axe
    from playwright.async_api import async_playwright

    faults: list[str] = []

    async def look(name: str) -> None:
        if await page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"):
            faults.append(f"{name} scrolls sideways")
        found = await Axe().run(page, options={"resultTypes": ["violations"]})
        faults.extend(f"{name}: {each['id']}: {each['nodes'][0]['html'][:160]}" for each in found["violations"])
        if folder := os.environ.get("ONCEWARD_TEST_ARTIFACTS"):
            await page.screenshot(path=str(Path(folder) / f"learning-desk-{name}-{device}.png"), full_page=True)

    async def do(action: str, *, name: str, never: str = "\0") -> None:
        """Continue, read what will happen, and do it."""
        await page.get_by_role("button", name="Continue").click()
        await page.get_by_role("heading", name="What will happen").wait_for()
        assert never not in await page.locator(".will").inner_text()
        await look(name)
        await page.get_by_role("button", name=action, exact=True).click()

    async with running(database_url, tmp_path) as server, async_playwright() as playwright:
        await taught(server)
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)
        try:
            # The accessibility checker is injected, which the policy of the pages does not allow.
            context = await browser.new_context(**DEVICES[device], bypass_csp=True, reduced_motion="reduce")
            context.set_default_timeout(TIMEOUT_MS)
            page: Any = await context.new_page()
            page.on("pageerror", lambda error: faults.append(str(error)))
            await sign_in(server, page)
            await page.goto(f"{server.url}/dashboard/learning")
            await page.get_by_text("Active enrolments").first.wait_for()
            await look("home")
            await page.goto(f"{server.url}/dashboard/learning/cohorts")
            await page.get_by_role("link", name=LONG).click()
            await page.get_by_role("heading", name=LONG).wait_for()
            await look("cohort")

            await page.get_by_role("link", name="Edit", exact=True).click()
            await page.get_by_label("Name", exact=True).fill("Data Engineering")
            await look("edit-form")
            await do("Edit", name="edit", never="new dates")
            await page.get_by_text("Data Engineering was changed.").wait_for()
            assert await server.db.fetchval("select name from learning.cohorts") == "Data Engineering"

            await page.goto(f"{server.url}/dashboard/learning/sessions")
            await look("sessions")
            await page.get_by_role("link", name="Session 2").click()
            await page.get_by_role("link", name="Change", exact=True).click()
            await page.get_by_label("Title").fill("The second evening")
            starts = page.get_by_label("Starts", exact=True)
            await starts.fill((datetime.now(UTC) + timedelta(days=9, hours=2)).strftime("%Y-%m-%dT%H:%M"))
            ends = page.get_by_label("Ends", exact=True)
            await ends.fill((datetime.now(UTC) + timedelta(days=9, hours=3)).strftime("%Y-%m-%dT%H:%M"))
            await do("Change", name="session")
            await page.get_by_text("The second evening was changed.").wait_for()

            await page.goto(f"{server.url}/dashboard/learning/sessions")
            await page.get_by_role("link", name="Session 1").click()
            await page.get_by_role("link", name="Attendance", exact=True).click()
            await page.get_by_label("Absent").fill("bob@example.org")
            await do("Attendance", name="attendance")
            await page.get_by_text("1 student absent, all others present. 2 marks changed.").wait_for()

            await page.goto(f"{server.url}/dashboard/learning/submissions?status=HANDED_IN")
            await page.get_by_role("link", name="Ada").click()
            await page.get_by_text("It reads the file twice.").first.wait_for()
            assert (await page.locator(".long-text").inner_text()).endswith("The end."), "work is graded as a whole"
            await look("submission")
            await page.get_by_role("link", name="Grade", exact=True).click()
            await page.get_by_label("Points").fill("90")
            await page.get_by_label("Feedback").fill("Well done.")
            await do("Grade", name="grade")
            await page.get_by_text("A pipeline is passed and counts as done.").wait_for()
            assert await server.db.fetchval("select grade from learning.submissions") == 90
            assert faults == []
        finally:
            await browser.close()
