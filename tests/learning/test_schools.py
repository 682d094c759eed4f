"""The school's own name, colour and domain, on pages and in mails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceward.messages.rendering import LINK_COLOUR
from onceward.testing import assert_sent
from onceward_apps.learning import schools
from onceward_apps.learning.enrollments import enrol_by_hand
from onceward_apps.learning.errors import InvalidRequest, LearningError
from tests.learning.school import School
from tests.learning.server import running

LOOK: dict[str, Any] = {"name": "Escola do Rio", "colour": "#7A1FA2", "website": "https://rio.example"}


def test_a_colour_can_be_read_on_light_and_on_dark_pages() -> None:
    assert schools.contrast("#000000", "#ffffff") == 21
    for colour in ("#7a1fa2", "#000000", "#1d5fd0"):
        assert schools.contrast(schools.lighter(colour), "#18212b") >= schools.MIN_CONTRAST
        assert f"--accent: {colour}" in schools.style(colour)


@pytest.mark.acceptance("schoolLook")
async def test_mails_have_the_name_the_colour_and_the_domain_of_the_school(school: School) -> None:
    cohort = await school.cohort(price=0)
    other = await school.add_organization("other")
    async with school.transaction() as tx:
        await schools.set_look(tx, **LOOK, actor="op")
        await schools.set_domain(tx, "Learn.Rio.example", actor="admin")
        for wrong in ({"colour": "#ffff00"}, {"colour": "red"}, {"website": "javascript:x"}, {"name": " "}):
            with pytest.raises(InvalidRequest, match=next(iter(wrong))):
                await schools.set_look(tx, **(LOOK | wrong), actor="op")
        with pytest.raises(InvalidRequest, match=r"learn\.example\.org"):
            await schools.set_domain(tx, "https://x.example/", actor="admin")
    async with school.engine.transaction(organization=other) as tx:
        with pytest.raises(LearningError, match="another organization"):
            await schools.set_domain(tx, "learn.rio.example", actor="admin")
        assert (await schools.brand_of(tx)).name == "other"
    async with school.transaction() as tx:
        enrollment = await enrol_by_hand(tx, cohort, await school.student("Ada"), reason="x", actor="op")
    [mail] = await assert_sent(school.engine, "enrollment-welcome", count=1)
    assert mail.data["homeUrl"] == f"https://learn.rio.example/learn/home/{enrollment}"
    assert (mail.data["_brand"], mail.data["_colour"]) == ("Escola do Rio", "#7a1fa2")
    assert LINK_COLOUR != "#7a1fa2"


@pytest.mark.acceptance("schoolLook")
async def test_pages_have_the_look_of_the_school_also_at_its_domain(database_url: str, tmp_path: Path) -> None:
    async with running(database_url, tmp_path) as server:
        cohort = await server.cohort()
        style = f"/learn/brand/{server.organization}.css"
        assert (await server.call("GET", style))[0] == 404
        _, plain = await server.call("GET", f"/learn/cohorts/{cohort}")
        assert ("Riverside School" in plain, style in plain) == (True, False)
        status, _ = await server.call("PUT", "/api/v1/learning/school", LOOK, token=server.key)
        assert status == 200
        async with server.engine.transaction(organization=server.organization) as tx:
            await schools.set_domain(tx, "learn.rio.example", actor="admin")
        for path in (f"/learn/cohorts/{cohort}", "/learn/o/riverside"):
            _, shown = await server.call("GET", path)
            assert all(each in shown for each in ("Escola do Rio", style, "https://rio.example")), path
        status, css = await server.call("GET", style)
        assert (status, "--accent: #7a1fa2" in css) == (200, True)
        async with server.http.get(
            f"{server.url}/learn", headers={"host": "learn.rio.example"}, allow_redirects=False
        ) as answer:
            assert (answer.status, answer.headers["location"]) == (303, "/learn/o/riverside")
