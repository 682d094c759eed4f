"""A course from the request to its last lesson."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from onceward_apps.coursegen import model_calls
from onceward_apps.coursegen.simulated_author import write_course
from onceward_apps.coursegen.store import courses
from tests.coursegen.school import School, retry_now


async def test_a_course_is_generated_with_all_lessons_exercises_and_a_review(school: School) -> None:
    course_id = await school.generate()
    course = await school.course(course_id)
    assert course["status"] == "completed", (course["error_code"], course["generation_progress"])
    progress = course["generation_progress"]
    assert progress["percentage"] == 100
    assert [step["status"] for step in progress["steps"]] == ["completed"] * 5
    lessons = await school.lessons(course_id)
    assert len(lessons) == 2
    assert all(lesson["content"] and lesson["exercises"] for lesson in lessons)
    assert (await school.version(course_id))["review"]["summary"]
    calls = await school.calls(course_id)
    assert [call["item"] for call in calls] == [
        "outline",
        "lesson:1",
        "lesson:2",
        "exercises:1",
        "exercises:2",
        "review",
    ]
    assert {call["state"] for call in calls} == {"done"}
    assert await school.held() == 0


async def test_the_text_is_in_the_language_of_the_course(school: School) -> None:
    course_id = await school.generate(language="ru-RU")
    steps = (await school.course(course_id))["generation_progress"]["steps"]
    assert steps[0]["message"] == "Инициализация завершена"
    assert steps[4]["message"] == "Курс готов"


async def test_a_rate_limit_is_waited_for_inside_the_attempt(school: School) -> None:
    school.openai.rate_limit(retry_after_s=0)
    course_id = await school.generate()
    assert (await school.course(course_id))["status"] == "completed"
    states = [(call["item"], call["state"]) for call in await school.calls(course_id)]
    assert states[:2] == [("outline", "failed"), ("outline", "done")]
    assert (await school.calls(course_id))[0]["cost_micros"] == 0


async def test_a_long_retry_after_ends_the_attempt_and_the_next_one_pays_for_nothing_again(school: School) -> None:
    course_id = await school.add_course()
    await school.accept(course_id)
    school.configure(longest_wait_s=5)
    real = school.openai.write

    def limited(body: Any) -> str:
        if len(school.openai.calls) == 2:
            school.openai.rate_limit(retry_after_s=120)
        return real(body)

    school.openai.write = limited
    await school.drain()
    waiting = await school.course(course_id)
    assert (waiting["status"], waiting["waits_for"]) == ("queued", "retry")
    waits_s = await school.db.fetchval("select extract(epoch from sort_at - onceward.now()) from onceward.work")
    assert 100 < waits_s <= 120
    assert await school.held() == 0, "a course that waits holds no slot"
    await retry_now(school)
    assert (await school.course(course_id))["status"] == "completed"
    done = [call["item"] for call in await school.calls(course_id) if call["state"] == "done"]
    assert len(done) == len(set(done)) == 6


async def test_a_broken_stream_is_tried_again_and_booked_with_all_it_may_have_cost(school: School) -> None:
    school.openai.answer_with(write_course(outline_request(2)))
    school.openai.break_stream(after_characters=400)
    course_id = await school.generate()
    assert (await school.course(course_id))["status"] == "completed"
    broken = (await school.calls(course_id))[1]
    assert (broken["item"], broken["state"], broken["estimated"]) == ("lesson:1", "failed", True)
    assert 0 < broken["cost_micros"] == broken["reserved_micros"]


@pytest.mark.acceptance("004-B booking")
async def test_a_call_that_timed_out_is_booked_with_its_reservation(school: School) -> None:
    """The service may have written all of it: a course whose calls time out must not get past its budget."""
    school.configure(call_timeout_s=1, call_tries=1)
    school.openai.stall_stream(after_characters=0)
    course_id = await school.generate()
    [call] = await school.calls(course_id)
    assert (call["state"], call["estimated"]) == ("failed", True)
    assert call["cost_micros"] == call["reserved_micros"] > 0


@pytest.mark.acceptance("004-B booking")
async def test_an_answer_without_a_usage_report_is_marked_as_estimated(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onceward.integrations.openai.client.read_usage", lambda _answer: None)
    course_id = await school.generate(lessons=1)
    calls = await school.calls(course_id)
    assert {(call["state"], call["estimated"]) for call in calls} == {("done", True)}
    assert all(0 < call["cost_micros"] <= call["reserved_micros"] for call in calls)


def outline_request(lessons: int) -> dict[str, Any]:
    content = orjson.dumps({"course": "Knots", "task": f"exactly {lessons} lessons"}).decode()
    return {
        "messages": [{"role": "user", "content": content}],
        "response_format": {"json_schema": {"schema": {"properties": {"lessons": {}}}}},
    }


async def test_an_answer_that_does_not_fit_is_repaired_once(school: School) -> None:
    school.openai.answer_with('{"description": "half an ans')
    course_id = await school.generate()
    assert (await school.course(course_id))["status"] == "completed"
    calls = await school.calls(course_id)
    assert [call["item"] for call in calls][:2] == ["outline", "outline:repair"]
    assert calls[0]["state"] == "done"
    assert calls[0]["cost_micros"] > 0
    assert "not JSON" in school.openai.calls[1].messages[-1]["content"]


async def test_a_second_answer_that_does_not_fit_fails_the_course_clearly(school: School) -> None:
    school.openai.answer_with('{"description": "d", "lessons": []}', "[]")
    course_id = await school.generate()
    course = await school.course(course_id)
    assert (course["status"], course["error_code"]) == ("failed", "invalid_output")
    step = course["generation_progress"]["steps"][1]
    assert (step["status"], step["error_details"]["code"]) == ("failed", "invalid_output")
    assert "outline" in step["error_details"]["reason"]
    assert await school.held() == 0
    assert len(school.openai.calls) == 2


async def test_a_refusal_of_the_model_fails_the_course_without_another_try(school: School) -> None:
    school.openai.refuse()
    course_id = await school.generate()
    course = await school.course(course_id)
    assert (course["status"], course["error_code"]) == ("failed", "content_refused")
    assert len(school.openai.calls) == 1


async def test_a_wrong_number_of_lessons_is_repaired(school: School) -> None:
    school.openai.answer_with(write_course(outline_request(5)))
    course_id = await school.generate()
    assert (await school.course(course_id))["status"] == "completed"
    assert len(await school.lessons(course_id)) == 2


async def test_an_outage_of_the_model_ends_after_three_attempts_and_the_course_says_so(school: School) -> None:
    school.configure(call_tries=2)
    course_id = await school.add_course()
    await school.accept(course_id)
    school.openai.fail_next(6, status=503)
    await school.drain()
    for _ in range(2):
        assert (await school.course(course_id))["waits_for"] == "retry"
        await retry_now(school)
    course = await school.course(course_id)
    assert (course["status"], course["error_code"]) == ("failed", "provider_unavailable")
    assert await school.held() == 0
    assert [call["state"] for call in await school.calls(course_id)] == ["failed"] * 6


async def test_an_endless_stream_ends_at_its_limit(school: School) -> None:
    school.configure(max_output_tokens=64, call_tries=1)
    school.openai.stream_without_end()
    course_id = await school.generate()
    [call] = await school.calls(course_id)
    assert call["state"] == "failed"
    assert "longer than its limit" in call["error"]
    assert (await school.course(course_id))["waits_for"] == "retry"  # the next attempt may do better


async def test_a_budget_that_ends_in_a_lesson_keeps_the_lessons_before_it(school: School) -> None:
    course_id = await school.add_course()
    await school.accept(course_id)
    # Enough for the outline and the first lesson; then too little is left for an answer.
    await school.db.execute("update coursegen.courses set budget_micros = 700 where id = $1", course_id)
    await school.drain()
    course = await school.course(course_id)
    assert (course["status"], course["error_code"]) == ("failed", "budget_exceeded")
    written = [lesson["position"] for lesson in await school.lessons(course_id) if lesson["content"]]
    assert written
    calls = await school.calls(course_id)
    assert sum(call["cost_micros"] for call in calls) <= 700
    paid = len(school.openai.calls)
    await school.accept(course_id, budget_micros=2_000_000)
    await school.drain()
    assert (await school.course(course_id))["status"] == "completed"
    items = [call["item"] for call in await school.calls(course_id) if call["state"] == "done"]
    assert len(items) == len(set(items)), "a finished lesson was paid for twice"
    assert len(school.openai.calls) > paid


async def test_an_answer_cut_by_the_rest_of_the_budget_is_a_spent_budget(school: School) -> None:
    school.openai.cut(after_characters=30)
    course_id = await school.generate(budget_micros=500)
    course = await school.course(course_id)
    assert (course["status"], course["error_code"]) == ("failed", "budget_exceeded")


@pytest.mark.acceptance("004-2 metrics")
async def test_a_generation_that_takes_too_long_fails_with_a_timeout(school: School) -> None:
    school.configure(timeout_s=1)
    school.openai.stall_stream()
    course_id = await school.generate()
    course = await school.course(course_id)
    assert (course["status"], course["error_code"]) == ("failed", "timeout")
    [noted] = await school.metrics("worker_timeout")
    assert (noted["subject"], noted["user_id"], noted["job_id"]) == (str(course_id), school.user, str(course["job_id"]))
    assert await school.held() == 0
    assert (await school.calls(course_id))[-1]["state"] == "stopped"


async def test_the_draft_of_a_lesson_is_visible_while_it_is_written(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_calls, "DRAFT_EVERY_S", 0.0)
    seen: list[str] = []
    real = courses.show_draft

    async def show(tx: Any, *args: Any, **values: Any) -> None:
        await real(tx, *args, **values)
        seen.append(values["text"])

    monkeypatch.setattr(courses, "show_draft", show)
    course_id = await school.generate(lessons=1)
    drafts = [text for text in seen if text]
    assert len(drafts) > 2
    content = (await school.lessons(course_id))[0]["content"]
    assert drafts[0] != content
    assert all(drafts[n + 1].startswith(drafts[n]) for n in range(len(drafts) - 1))
    assert await school.db.fetchval("select count(*) from coursegen.drafts") == 0


async def test_one_lesson_is_written_again_and_no_other_is_paid_for(school: School) -> None:
    course_id = await school.generate()
    before = {lesson["position"]: lesson["content_at"] for lesson in await school.lessons(course_id)}
    await school.accept(course_id, lesson=2)
    assert await school.held() == 1
    await school.drain()
    course = await school.course(course_id)
    assert (course["status"], course["attempt"], course["shown"]) == ("completed", 2, 2)
    after = {lesson["position"]: lesson["content_at"] for lesson in await school.lessons(course_id)}
    assert after[1] == before[1]
    assert after[2] > before[2]
    assert [call["item"] for call in await school.calls(course_id)][6:] == ["lesson:2", "exercises:2"]


async def test_costs_are_counted_per_call_step_and_tier(school: School) -> None:
    await school.set_tier("PREMIUM")
    course_id = await school.generate()
    calls = await school.calls(course_id)
    for call, simulated in zip(calls, school.openai.calls, strict=True):
        assert call["prompt_tokens"] == simulated.prompt_tokens
        assert call["completion_tokens"] == simulated.completion_tokens
        micros = (simulated.prompt_tokens * 150_000 + simulated.completion_tokens * 600_000) / 1_000_000
        assert micros <= call["cost_micros"] < micros + 1
        assert str(call["request_id"]) == simulated.key
    row = await school.db.fetchrow("select tier, cost_micros, calls from coursegen.tier_costs")
    assert row is not None
    assert tuple(row) == ("PREMIUM", sum(call["cost_micros"] for call in calls), 6)


async def test_a_course_deleted_while_it_is_generated_ends_its_job_without_an_error(school: School) -> None:
    course_id = await school.add_course()
    admitted = await school.accept(course_id)
    real = school.openai.write
    deleted: list[bool] = []

    def delete(body: Any) -> str:
        if len(school.openai.calls) == 2 and not deleted:
            deleted.append(True)
            school.openai.latency_s = 0.3
            tasks.append(
                asyncio.create_task(school.db.execute("delete from coursegen.courses where id = $1", course_id))
            )
        return real(body)

    tasks: list[Any] = []
    school.openai.write = delete
    await school.drain()
    await asyncio.gather(*tasks)
    finished = await school.engine.result(admitted.job_id)
    assert finished is not None
    assert (finished.outcome, finished.result["status"]) == ("success", "halted")
    assert await school.held() == 0
    assert {call["state"] for call in await school.calls(course_id)} <= {"done", "stopped"}


async def test_other_steps_can_be_plugged_in(school: School) -> None:
    school.configure(steps="tests.coursegen.other_steps:STEPS")
    course_id = await school.generate()
    assert (await school.course(course_id))["status"] == "completed"
    assert [lesson["content"] for lesson in await school.lessons(course_id)] == ["copied"]
    assert school.openai.calls == []
