"""A course from the request to its last lesson."""

from __future__ import annotations

from tests.coursegen.school import School


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
    assert course["review"]["summary"]
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
