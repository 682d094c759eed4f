"""Several models and providers: choice by step and organization, fallback, long texts, caps, forecast, usage,
exports."""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import pytest

from onceward.integrations.anthropic import AnthropicSimulator
from onceward.schedules import run_here
from onceward.services import service_settings
from onceward_apps.coursegen import app, course_views, export_pages, models
from onceward_apps.coursegen.app import plan
from onceward_apps.coursegen.errors import AtLimit
from onceward_apps.coursegen.forecast import forecast
from onceward_apps.coursegen.simulated_author import write_course
from onceward_apps.coursegen.store import costs, courses
from tests.coursegen.school import School, retry_now


@pytest.fixture
async def claude(school: School) -> AsyncIterator[AnthropicSimulator]:
    async with AnthropicSimulator() as simulator:
        simulator.write = write_course
        simulator.piece_characters = 200
        app.services.simulate("anthropic", simulator.base_url)
        yield simulator


async def set_own(school: School, **values: Any) -> None:
    async with school.engine.transaction(organization=school.organization) as tx:
        own: dict[str, Any] = {"models": "", "prices": "", "monthly_cap_micros": None, "user_cap_micros": None}
        await costs.set_own(tx, **{**own, **values})


@pytest.mark.acceptance("004-H models")
async def test_each_step_has_its_model_and_an_organization_may_choose_others_with_their_prices(
    school: School, claude: AnthropicSimulator
) -> None:
    school.configure(models="outline=openai/large,*=openai", prices="openai/large=10:20,anthropic/claude-x=1000:0")
    await set_own(school, models="lessons=anthropic/claude-x")
    course_id = await school.generate()
    used = {call["item"]: call["model"] for call in await school.calls(course_id)}
    assert used["outline"] == "openai/large"
    assert used["lesson:1"] == used["lesson:2"] == "anthropic/claude-x"
    assert used["exercises:1"] == used["review"] == "openai/gpt-simulated"
    assert {call.model for call in claude.calls} == {"claude-x"}
    lesson = next(call for call in await school.calls(course_id) if call["item"] == "lesson:1")
    assert lesson["cost_micros"] == lesson["prompt_tokens"] * 1000
    assert (await school.course(course_id))["status"] == "completed"


@pytest.mark.acceptance("004-H fallback")
async def test_the_next_model_answers_after_a_refusal_an_outage_or_a_refused_account(
    school: School, claude: AnthropicSimulator
) -> None:
    school.configure(models="*=anthropic|openai", call_tries=2)
    claude.refuse()  # the outline: refused by the model
    claude.answer_with("")  # lesson 1 ...
    claude.answer_with("")  # ... does not fit twice
    claude.use_up_credit()  # lesson 2: from here on the account is asked last
    course_id = await school.generate()
    assert (await school.course(course_id))["status"] == "completed"
    done = {call["item"]: call["model"] for call in await school.calls(course_id) if call["error"] is None}
    assert set(done.values()) == {"openai/gpt-simulated"}
    assert len(claude.calls) == 4, "a refused account was asked again although another model answers"
    assert await school.db.fetchval("select count(*) from coursegen.model_pauses") == 0
    claude.fail_next(100, status=529)
    away = await school.generate()
    assert (await school.course(away))["status"] == "completed"


async def test_a_course_waits_if_one_of_its_models_is_only_away(school: School, claude: AnthropicSimulator) -> None:
    school.configure(models="*=anthropic|openai", call_tries=1)
    claude.fail_next(1, status=529)
    school.openai.refuse()
    course_id = await school.generate()
    assert (await school.course(course_id))["waits_for"] == "retry"
    await retry_now(school)
    assert (await school.course(course_id))["status"] == "completed"


@pytest.mark.acceptance("004-H long lessons")
async def test_a_lesson_over_the_token_limit_is_continued_and_no_part_of_it_is_lost(school: School) -> None:
    outline = write_course(
        {
            "messages": [{"role": "user", "content": '{"task": "exactly 1 lessons"}'}],
            "response_format": {"json_schema": {"schema": {"properties": {"lessons": {}}}}},
        }
    )
    school.openai.answer_with(outline)
    school.openai.cut(after_characters=300)
    school.openai.fail_next(0)
    school.configure(call_tries=1)
    real = school.openai.write

    def stop_after_the_cut(body: dict[str, Any]) -> str:
        school.openai.write = lambda _body: " and the rest."
        school.openai.fail_next(status=500)
        return real(body)

    school.openai.write = stop_after_the_cut
    course_id = await school.generate(lessons=1)
    kept = await school.db.fetchval("select part from coursegen.course_lessons where course_id = $1", course_id)
    assert len(kept) == 300, "the paid part is kept while the course waits"
    school.openai.answer_with(" and the rest.")
    school.openai.write = real
    await retry_now(school)
    [lesson] = await school.lessons(course_id)
    assert lesson["content"] == f"{kept} and the rest."
    assert lesson["part"] is None
    asked = next(call for call in school.openai.calls if call.answer == " and the rest.")
    assert [each["role"] for each in asked.messages][-2:] == ["assistant", "user"]
    assert (await school.course(course_id))["status"] == "completed"


async def test_a_text_that_never_ends_fails_after_a_few_parts(school: School) -> None:
    school.configure(most_parts=2)
    school.openai.answer_with(
        write_course(
            {
                "messages": [{"role": "user", "content": '{"task": "exactly 1 lessons"}'}],
                "response_format": {"json_schema": {"schema": {"properties": {"lessons": {}}}}},
            }
        )
    )
    school.openai.cut()
    school.openai.cut()
    course_id = await school.generate(lessons=1)
    assert (await school.course(course_id))["error_code"] == "invalid_output"


@pytest.mark.acceptance("004-H caps")
async def test_caps_of_user_and_organization_hold_and_the_forecast_refuses_before_the_start(school: School) -> None:
    course_id = await school.add_course()
    async with school.engine.transaction(organization=school.organization) as tx:
        course = await courses.lock(tx, course_id)
        expected = await forecast(tx, course, plan())
    assert (expected.calls, expected.cap_left_micros, expected.fits) == (6, None, True)
    assert 0 < expected.expected_micros < expected.most_micros == 2_000_000
    await set_own(school, user_cap_micros=expected.expected_micros - 1)
    with pytest.raises(AtLimit) as refused:
        await school.accept(course_id)
    assert refused.value.which == "forecast"
    assert refused.value.facts["left_usd"] == f"{(expected.expected_micros - 1) / 1e6:.2f}"
    await set_own(school, user_cap_micros=10_000_000, monthly_cap_micros=expected.expected_micros)
    await school.accept(course_id)
    await set_own(school, monthly_cap_micros=700)  # somebody lowers the cap while the course waits
    await school.drain()
    ended = await school.course(course_id)
    spent = await school.db.fetchval("select sum(cost_micros) from coursegen.llm_calls")
    assert 0 < spent <= 700
    assert (ended["status"], ended["error_code"]) == ("failed", "monthly_cap")
    assert await school.db.fetchval("select sum(cost_micros) from coursegen.user_costs") == spent
    await set_own(school, monthly_cap_micros=10_000_000)
    await school.accept(course_id)
    await school.drain()
    assert (await school.course(course_id))["status"] == "completed"


@pytest.mark.acceptance("004-H usage")
async def test_an_estimate_is_corrected_by_what_the_service_counted(school: School) -> None:
    account = service_settings("openai", api_key="sk-1", model="gpt-simulated", admin_key="sk-admin-1")
    app.services.configure(app.services.settings.using(account))
    school.configure(call_tries=2)
    school.openai.break_stream()
    course_id = await school.generate()
    day = datetime.now(UTC) - timedelta(days=2)
    await school.db.execute("update coursegen.llm_calls set finished_at = $1", day)
    await school.db.execute("update coursegen.tier_costs set month = date_trunc('month', $1::timestamptz)::date", day)
    await school.db.execute("update coursegen.user_costs set month = date_trunc('month', $1::timestamptz)::date", day)
    calls = await school.calls(course_id)
    broken = calls[0]
    assert (broken["estimated"], broken["cost_micros"]) == (True, broken["reserved_micros"])
    known = [sum(call[name] or 0 for call in calls) for name in ("prompt_tokens", "completion_tokens")]
    usage = {"gpt-simulated-2026-01-01": (known[0] + 100, known[1] + 50)}
    school.openai.usage_by_day[f"{day:%Y-%m-%d}"] = usage
    for _ in range(2):  # the second run changes nothing
        report = await run_here(school.db, app.schedules["coursegen-usage"], open_tx=school.engine.open_tx, by="test")
        assert report.status == "success"
    after = (await school.calls(course_id))[0]
    assert after["cost_micros"] == models.Prices.of(0.15, 0.60).cost(100, 50) < broken["cost_micros"]
    total = sum(call["cost_micros"] for call in await school.calls(course_id))
    for table in ("tier_costs", "user_costs"):
        assert await school.db.fetchval(f"select sum(cost_micros) from coursegen.{table}") == total


@pytest.mark.acceptance("004-H exports")
async def test_a_course_is_exported_as_one_page_and_as_a_scorm_package(school: School) -> None:
    course_id = await school.generate(title="Knots & <b>ropes</b>")
    await school.db.execute(
        "update coursegen.course_lessons set content = content || $1",
        "\n\n<script>alert(1)</script> [x](javascript:alert(1))",
    )
    course = await school.course(course_id)
    whole = course_views.whole(course, await school.version(course_id), await school.lessons(course_id))
    page = export_pages.as_html(whole)
    assert "<script>alert" not in page
    assert 'href="javascript' not in page
    assert "Knots &amp; &lt;b&gt;ropes" in page
    assert page.count("<section>") == 2
    package = export_pages.as_scorm(whole)
    assert package == export_pages.as_scorm(whole), "the same course gives the same bytes"
    with zipfile.ZipFile(io.BytesIO(package)) as opened:
        manifest = ElementTree.fromstring(opened.read("imsmanifest.xml"))
        names = set(opened.namelist())
    space = {"c": "http://www.imsproject.org/xsd/imscp_rootv1p1p2"}
    resources = {each.get("identifier"): each for each in manifest.iterfind(".//c:resource", space)}
    items = manifest.findall(".//c:item", space)
    assert {each.get("identifierref") for each in items} == set(resources) == {"resource-1", "resource-2"}
    files = {each.get("href") for each in manifest.iterfind(".//c:file", space)}
    assert files | {"imsmanifest.xml"} == names
    assert manifest.findtext(".//c:schemaversion", namespaces=space) == "1.2"


def test_settings_of_models_name_what_is_wrong() -> None:
    assert [ref.name for ref in models.parse_models("lessons=anthropic/a/b|openai")["lessons"]] == [
        "anthropic/a/b",
        "openai",
    ]
    for text, problem in (
        ("lesson=openai", "must have the form STEP=MODEL"),
        ("*=gemini/x", "'gemini' is not one of openai"),
        ("openai", "must have the form"),
    ):
        with pytest.raises(ValueError, match=problem):
            models.parse_models(text)
    for text in ("openai/x=1", "openai/x=a:b", "openai/x=-1:2", "openai/x=nan:1"):
        with pytest.raises(ValueError, match="INPUT:OUTPUT"):
            models.parse_prices(text)
