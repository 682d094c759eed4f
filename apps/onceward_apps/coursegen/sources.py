"""Texts of the user that a course is written from. They go to the model as data, numbered, and readers see the list.

A lesson names the source of a statement as [1], [2]. Nothing is fetched: a link is shown and never opened by us.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from onceward_apps.coursegen import safe_text
from onceward_apps.coursegen.errors import BadRequest

MOST = 10
MOST_CHARACTERS = 60_000
"""Of all sources of a course together."""
SHOWN_CHARACTERS = 6_000
"""Of one source in one call."""
TASK = " Take facts from the sources, and name the source of a statement by its number, such as [1]."


class SourceIn(BaseModel):
    """A text, with its title and, if it has one, its address."""

    model_config = ConfigDict(extra="forbid")

    title: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MOST_CHARACTERS)]
    url: Annotated[str, StringConstraints(max_length=2000)] | None = None


Sources = Annotated[list[SourceIn], Field(max_length=MOST)]


def stored(sources: Sequence[SourceIn]) -> list[dict[str, Any]]:
    """Return sources as they are stored. Raises `BadRequest` if they are too long together, or a link is not one."""
    characters = sum(len(each.text) for each in sources)
    if characters > MOST_CHARACTERS:
        raise BadRequest(f"sources: at most {MOST_CHARACTERS} characters together are allowed, not {characters}")
    for number, each in enumerate(sources, start=1):
        if each.url is not None and not each.url.startswith(("https://", "http://")):
            raise BadRequest(f"sources: the url of source {number} must begin with https:// or http://")
    return [
        {
            "title": safe_text.plain_text(each.title, most=200) or f"{number}",
            "text": safe_text.plain_text(each.text, most=MOST_CHARACTERS),
            "url": None if each.url is None else safe_text.plain_text(each.url, most=2000),
        }
        for number, each in enumerate(sources, start=1)
    ]


def for_the_model(course: Any) -> dict[str, Any]:
    """Return the sources of a course as a field of a call; nothing if it has none."""
    if not course["sources"]:
        return {}
    return {
        "sources": [
            {"number": number, "title": each["title"], "text": each["text"][:SHOWN_CHARACTERS]}
            for number, each in enumerate(course["sources"], start=1)
        ]
    }


def listed(course: Any) -> list[dict[str, Any]]:
    """Return what readers see of the sources."""
    return [{"title": each["title"], "url": each["url"]} for each in course["sources"]]
