"""The school's own name in mails, and its own domain for pages and links."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward.testing import assert_sent
from onceward_apps.learning import schools
from onceward_apps.learning.enrollments import enrol_by_hand
from onceward_apps.learning.errors import InvalidRequest, LearningError
from tests.learning.school import School
from tests.learning.server import running


@pytest.mark.acceptance("schoolLook")
async def test_mails_have_the_name_and_the_domain_of_the_school(school: School) -> None:
    cohort = await school.cohort(price=0)
    other = await school.add_organization("other")
    async with school.transaction() as tx:
        await schools.set_domain(tx, "Learn.Rio.example", actor="admin")
        with pytest.raises(InvalidRequest, match=r"learn\.example\.org"):
            await schools.set_domain(tx, "https://x.example/", actor="admin")
    async with school.engine.transaction(organization=other) as tx:
        with pytest.raises(LearningError, match="another organization"):
            await schools.set_domain(tx, "learn.rio.example", actor="admin")
        assert (
            (await schools.school_of(tx))
            .rebased("https://learn.example/learn/home")
            .startswith("https://learn.example")
        )
    async with school.transaction() as tx:
        enrollment = await enrol_by_hand(tx, cohort, await school.student("Ada"), reason="x", actor="op")
        await schools.set_domain(tx, None, actor="admin")
        assert (await schools.school_of(tx)).domain is None
    [mail] = await assert_sent(school.engine, "enrollment-welcome", count=1)
    assert mail.data["homeUrl"] == f"https://learn.rio.example/learn/home/{enrollment}"
    assert mail.data["_brand"] == "school"


@pytest.mark.acceptance("schoolLook")
async def test_the_domain_of_a_school_leads_to_its_catalogue(database_url: str, tmp_path: Path) -> None:
    async with running(database_url, tmp_path) as server:
        await server.cohort()
        async with server.engine.transaction(organization=server.organization) as tx:
            await schools.set_domain(tx, "learn.rio.example", actor="admin")
        async with server.http.get(
            f"{server.url}/learn", headers={"host": "learn.rio.example"}, allow_redirects=False
        ) as answer:
            assert (answer.status, answer.headers["location"]) == (303, "/learn/o/riverside")
        _, shown = await server.call("GET", "/learn/o/riverside")
        assert "Riverside School" in shown
