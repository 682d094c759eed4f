"""What the simulated language model writes: a course about anything, the same for the same request.

For the demo and tests.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import orjson

PARAGRAPHS = (
    "Start with the reason. Every rule of this subject answers a question that somebody once had to ask in the middle"
    " of the night, and the rule is easier to remember with the question beside it.",
    "An example says more than a definition. Take the smallest case that still shows the problem, write it down, and"
    " change one thing at a time. What stays the same is the idea; what changes is the detail.",
    "Most mistakes come from a boundary: the first item, the last one, none at all, two at the same moment. Look at"
    " these four before you look anywhere else.",
    "Now try it yourself. Close this page, explain the idea in three sentences to somebody who has not read it, and"
    " come back to the sentence that you could not finish.",
)


def write_course(body: dict[str, Any]) -> str:
    """Answer a request of `prompts`: JSON if it has a schema, else a lesson in Markdown."""
    asked = _asked(body)
    described: dict[str, Any] = (body.get("response_format") or {}).get("json_schema") or {}
    fields = (described.get("schema") or {}).get("properties") or {}
    if "lessons" in fields:
        number = int((re.search(r"exactly (\d+)", asked.get("task", "")) or ["", "3"])[1])
        return orjson.dumps(_outline(asked, number)).decode()
    if "svg" in fields:
        return orjson.dumps(_picture(asked)).decode()
    if "exercises" in fields:
        return orjson.dumps(_exercises(asked)).decode()
    if "strengths" in fields:
        return orjson.dumps(_review(asked)).decode()
    return _lesson(asked)


def _asked(body: dict[str, Any]) -> dict[str, Any]:
    """Return the description of the course and the task, from the first message of the user."""
    for message in body.get("messages", []):
        if message.get("role") == "user":
            try:
                return orjson.loads(message["content"])
            except orjson.JSONDecodeError:
                break
    return {}


def _outline(asked: dict[str, Any], number: int) -> dict[str, Any]:
    subject = asked.get("course", "The subject")
    names = (
        "First steps",
        "The idea behind it",
        "Working with examples",
        "Where it goes wrong",
        "In practice",
        "Going further",
    )
    lessons = [
        {
            "title": f"{names[n % len(names)]}" + ("" if n < len(names) else f" {n // len(names) + 1}"),
            "summary": f"Lesson {n + 1} of {subject}. It ends with something to try.",
        }
        for n in range(number)
    ]
    return {"description": f"{subject}, from the first question to the first result.", "lessons": lessons}


def _lesson(asked: dict[str, Any]) -> str:
    lesson: dict[str, Any] = asked.get("lesson") or {}
    title = str(lesson.get("title", "A lesson"))
    mark = hashlib.sha256(title.encode()).digest()
    order = sorted(range(len(PARAGRAPHS)), key=lambda n: mark[n])
    first, *others = (PARAGRAPHS[n] for n in order)
    body = "\n\n".join(others)
    return (
        f"{first}\n\n### {title}, step by step\n\n{body}\n\n- Name the case.\n- Change one thing.\n- Say what "
        f"**stayed**.\n"
    )


def _picture(asked: dict[str, Any]) -> dict[str, Any]:
    title = str((asked.get("lesson") or {}).get("title", "The lesson"))[:40]
    boxes = "".join(
        f'<rect x="{40 + 260 * n}" y="150" width="200" height="120" rx="12" fill="#e8eefc" stroke="#3355aa"/>'
        f'<text x="{140 + 260 * n}" y="218" font-size="22" text-anchor="middle">{word}</text>'
        for n, word in enumerate(("Question", "Example", "Rule"))
    )
    name = title.replace("&", "and").replace("<", "").replace(">", "")
    head = f'<text x="400" y="80" font-size="28" text-anchor="middle">{name}</text>'
    drawn = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 450">{head}{boxes}</svg>'
    return {"alt": f"From a question over an example to a rule: {title}", "svg": drawn}


def _exercises(asked: dict[str, Any]) -> dict[str, Any]:
    title = (asked.get("lesson") or {}).get("title", "this lesson")
    return {
        "exercises": [
            {
                "question": f"Give an example of your own for “{title}”.",
                "answer": "Any case that is small enough to check by hand.",
                "explanation": "If you can check it by hand, you know whether you understood it.",
            },
            {
                "question": "Which boundary is easiest to forget here, and why?",
                "answer": "The empty one: nothing seems to happen, so nobody looks.",
                "explanation": "Cases without a result are rarely tried, and often reached.",
            },
        ]
    }


def _review(asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "summary": f"“{asked.get('course', 'The course')}” leads from a question to a result a reader can repeat.",
        "strengths": ["Every lesson ends with something to try.", "Examples come before rules."],
        "improvements": ["A longer example across two lessons would tie them together."],
    }
