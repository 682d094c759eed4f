"""What users see of a course: as JSON for pages and live queries, and as exports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from onceward import Query, Tx
from onceward_apps.coursegen import line, model, pictures, safe_text, sources, texts
from onceward_apps.coursegen.line import Place
from onceward_apps.coursegen.store import calls, courses

Reader = Tx | Query

LESSON_FIELDS = ("position", "title", "summary")


async def read_progress(reader: Reader, course: Any, *, locale: texts.Locale | None = None) -> dict[str, Any]:
    """Read what belongs to a course, and return its state."""
    id = course["id"]
    return progress(
        course,
        await courses.lessons(reader, id, shown_attempt(course)),
        await calls.by_step(reader, id, course["attempt"]),
        await calls.paid_micros(reader, id, course["attempt"]),
        version=await courses.version(reader, id, course["attempt"]),
        place=await line.place(reader, course),
        locale=locale,
    )


def progress(
    course: Any,
    lessons: Sequence[Any],
    steps: Sequence[Any],
    paid_micros: int,
    *,
    version: Any = None,
    place: Place | None = None,
    locale: texts.Locale | None = None,
) -> dict[str, Any]:
    """Return the state of a course: steps, lessons without their texts, place in the line, costs."""
    locale = locale or texts.locale_of(course["language"])
    stored = course["generation_progress"]
    costs = {row["step"]: dict(row) for row in steps}
    return {
        "id": str(course["id"]),
        "title": course["title"],
        "language": course["language"],
        "status": course["status"],
        "attempt": course["attempt"],
        "shown": course["shown"],
        "unfinished": _is_unfinished(course, version),
        "rewriting": None if version is None else version["lesson"],
        "brief": course["brief"],
        "sources": sources.listed(course),
        "pictures": course["pictures"],
        "lesson_count": course["lesson_count"],
        "queue": None if place is None else {**asdict(place), "waits_for": course["waits_for"] or "slot"},
        "percentage": (stored or {}).get("percentage", 0),
        "current_step": (stored or {}).get("current_step", 1),
        "steps": [_step(stored, number, costs.get(number), locale) for number in range(1, 6)],
        "lessons": [
            {
                **{name: lesson[name] for name in LESSON_FIELDS},
                "written": lesson["content"] is not None,
                "exercises": lesson["exercises"] is not None,
                "version": _readable(course, version, lesson),
            }
            for lesson in lessons
        ],
        "cost_micros": paid_micros,
        "budget_micros": course["budget_micros"],
        "error_code": course["error_code"],
        "error": None if course["error_code"] is None else texts.text(f"failed.{course['error_code']}", locale),
        "job_id": None if course["job_id"] is None else str(course["job_id"]),
        "last_progress_update": course["last_progress_update"],
    }


def shown_attempt(course: Any) -> int:
    """Return the version whose lessons the page lists: the one that is written, or else the one that readers see."""
    if course["shown"] is None or course["status"] in model.RUNNING:
        return course["attempt"]
    return course["shown"]


def _is_unfinished(course: Any, version: Any) -> bool:
    """Return whether a newer version than the shown one was begun, not finished, and can be continued."""
    return course["status"] == "completed" and version is not None and version["completed_at"] is None


def _readable(course: Any, version: Any, lesson: Any) -> int | None:
    """Return the version in which this lesson can be read, which is the shown one during a rewrite."""
    if lesson["content"] is not None:
        return shown_attempt(course)
    return course["shown"] if version is not None and version["lesson"] == lesson["position"] else None


def _step(stored: Any, number: int, cost: dict[str, Any] | None, locale: texts.Locale) -> dict[str, Any]:
    step = dict(model.step_of(stored, number))
    metadata: dict[str, Any] = step.get("metadata") or {}
    key = metadata.get("message_key") or _first_key(number, metadata)
    message = texts.text(key, locale, **metadata) if key in texts.TEXTS else step.get("message")
    cost = cost or {}
    return {
        "number": number,
        "name": texts.text(f"step.{number}", locale),
        "status": step["status"],
        "message": message,
        "started_at": step.get("started_at"),
        "completed_at": step.get("completed_at"),
        "error": step.get("error"),
        "calls": cost.get("calls", 0),
        "tokens": cost.get("prompt_tokens", 0) + cost.get("completion_tokens", 0),
        "cost_micros": cost.get("cost_micros", 0),
    }


def _first_key(number: int, metadata: dict[str, Any]) -> str | None:
    """Return the key of the first step's message, whose metadata are those of the workflow that this app replaces."""
    if number != 1:
        return None
    if metadata.get("recovered_by_worker"):
        return "initialised.by_worker"
    return "initialised" if metadata.get("executor") == "orchestrator" else None


def whole(course: Any, version: Any, lessons: Sequence[Any]) -> dict[str, Any]:
    """Return one version of a course with its texts, for reading and for the JSON export."""
    outline: dict[str, Any] = ({} if version is None else version["outline"]) or {}
    return {
        "id": str(course["id"]),
        "title": course["title"],
        "language": course["language"],
        "status": course["status"],
        "version": None if version is None else version["attempt"],
        "description": outline.get("description", ""),
        "lessons": [
            {
                **{name: lesson[name] for name in LESSON_FIELDS},
                "content": lesson["content"],
                "picture": pictures.of_lesson(lesson),
                "exercises": lesson["exercises"] or [],
            }
            for lesson in lessons
        ],
        "review": None if version is None else version["review"],
        "sources": sources.listed(course),
    }


def as_markdown(course: Any, version: Any, lessons: Sequence[Any]) -> str:
    """Return a course as one Markdown document."""
    shown = whole(course, version, lessons)
    locale = texts.locale_of(course["language"])
    parts = [f"# {safe_text.heading(shown['title'])}", shown["description"]]
    for lesson in shown["lessons"]:
        parts.append(f"## {lesson['position']}. {safe_text.heading(lesson['title'])}")
        parts.append(lesson["content"] or safe_text.heading(lesson["summary"]))
        if lesson["picture"]:
            parts.append(
                f"![{safe_text.heading(lesson['picture']['alt']).replace(']', ')')}]({lesson['picture']['uri']})"
            )
        if lesson["exercises"]:
            parts.append(f"### {texts.text('step.4', locale)}")
            for number, exercise in enumerate(lesson["exercises"], start=1):
                parts.append(f"{number}. {exercise['question']}")
                parts.append(_quoted(f"{exercise['answer']}\n\n{exercise['explanation']}"))
    if shown["sources"]:
        parts.append(f"## {texts.text('export.sources', locale)}")
        parts.append("\n".join(f"{number}. {_source(each)}" for number, each in enumerate(shown["sources"], start=1)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _source(source: dict[str, Any]) -> str:
    title = safe_text.heading(source["title"])
    return title if source["url"] is None else f"{title} <{source['url']}>"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())
