"""An optional step: one drawing for each lesson, as SVG that the model of the lessons writes.

A drawing is an extra. If the model refuses it, or its answer does not fit twice, the lesson has none and the course
goes on. Only shapes, lines and text are kept: no script, style, link, image or anything that is loaded from elsewhere.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from onceward import Tx
from onceward.telemetry import get_logger
from onceward_apps.coursegen import model_calls, prompts, safe_text
from onceward_apps.coursegen.answers import NotFitting
from onceward_apps.coursegen.errors import GenerationFailed
from onceward_apps.coursegen.generation import Generation
from onceward_apps.coursegen.model_calls import Question
from onceward_apps.coursegen.store import courses

MOST_ELEMENTS = 400
OPTIONAL = frozenset({"content_refused", "invalid_output", "provider_refused"})
"""Failures that leave a lesson without a drawing. Money, time and outages end or delay the course as everywhere."""

SVG = "http://www.w3.org/2000/svg"
ELEMENTS = frozenset(
    [
        "svg",
        "g",
        "defs",
        "marker",
        "title",
        "desc",
        "path",
        "rect",
        "circle",
        "ellipse",
        "line",
        "polyline",
        "polygon",
        "text",
        "tspan",
        "linearGradient",
        "radialGradient",
        "stop",
    ]
)
ATTRIBUTES = frozenset(
    [
        "viewBox",
        "width",
        "height",
        "x",
        "y",
        "x1",
        "y1",
        "x2",
        "y2",
        "cx",
        "cy",
        "r",
        "rx",
        "ry",
        "d",
        "points",
        "transform",
        "fill",
        "stroke",
        "opacity",
        "offset",
        "id",
        "dx",
        "dy",
        "fill-opacity",
        "stroke-opacity",
        "stroke-width",
        "stroke-dasharray",
        "stroke-linecap",
        "stroke-linejoin",
        "font-size",
        "font-family",
        "font-weight",
        "text-anchor",
        "dominant-baseline",
        "stop-color",
        "stop-opacity",
        "gradientUnits",
        "marker-end",
        "marker-start",
        "markerWidth",
        "markerHeight",
        "refX",
        "refY",
        "orient",
    ]
)
_VALUE = re.compile(r"[\w\s#.,%()+/-]{0,8000}|url\(#[\w-]{1,60}\)")
_ANYWHERE = re.compile(r"(?i)url\s*\((?!#[\w-]{1,60}\))")

log = get_logger("onceward_apps.coursegen")

ElementTree.register_namespace("", SVG)


def clean_svg(text: str) -> str:
    """Return a drawing with its harmless parts only. Raises ValueError if it is not a drawing."""
    start, end = text.find("<svg"), text.rfind("</svg>")
    if start < 0 or end < start:
        raise ValueError("svg: must be one <svg> element")
    drawing = text[start : end + len("</svg>")]
    if "<!" in drawing or "<?" in drawing:
        raise ValueError("svg: comments, declarations and instructions are not allowed")
    try:
        root = ElementTree.fromstring(drawing)
    except ElementTree.ParseError as error:
        raise ValueError(f"svg: is not well-formed: {error}") from None
    if _name(root) != "svg" or not re.fullmatch(r"[\d\s.-]{7,60}", root.get("viewBox", "")):
        raise ValueError("svg: must be one <svg> element with a viewBox of four numbers")
    if sum(1 for _ in root.iter()) > MOST_ELEMENTS:
        raise ValueError(f"svg: at most {MOST_ELEMENTS} elements are allowed")
    kept = _kept(root)
    for size in ("width", "height"):
        kept.attrib.pop(size, None)
    return ElementTree.tostring(kept, encoding="unicode")


def _kept(node: ElementTree.Element) -> ElementTree.Element:
    copy = ElementTree.Element(f"{{{SVG}}}{_name(node)}")
    for name, value in node.attrib.items():
        if name in ATTRIBUTES and _VALUE.fullmatch(value) and not _ANYWHERE.search(value):
            copy.set(name, value)
    copy.text = node.text
    for child in node:
        if _name(child) in ELEMENTS - {"svg"}:
            kept = _kept(child)
            kept.tail = child.tail
            copy.append(kept)
    return copy


def _name(node: ElementTree.Element) -> str:
    return node.tag.rpartition("}")[2]


def as_data_uri(svg: str) -> str:
    """Return a drawing as the address of an image: in an image, no browser runs or loads anything."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def of_lesson(lesson: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the drawing of a lesson for readers. None: there is none, or it is not drawn yet."""
    picture = lesson["picture"]
    return {"alt": picture["alt"], "uri": as_data_uri(picture["svg"])} if picture else None


async def draw(generation: Generation) -> None:
    """Draw for the lessons that have no drawing yet, one call and one commit each."""
    if not generation.course["pictures"]:
        return
    async with generation.job.transaction() as tx:
        lessons = await courses.lessons(tx, generation.course_id)
    for lesson in lessons:
        if lesson["picture"] is None and lesson["content"] is not None:
            await _draw_one(generation, lesson)


async def _draw_one(generation: Generation, lesson: Any) -> None:
    number = lesson["position"]

    async def save(tx: Tx, answer: prompts.Picture) -> None:
        try:
            svg = clean_svg(answer.svg)
        except ValueError as problem:
            raise NotFitting(str(problem), answer.model_dump_json()) from None
        picture = {"alt": safe_text.plain_text(answer.alt, most=300), "svg": svg}
        await courses.save_picture(tx, generation.course_id, number, picture)

    messages = prompts.picture(generation.course, lesson["title"], lesson["content"])
    question = Question(step=3, item=f"picture:{number}", title=lesson["title"], messages=messages)
    try:
        await model_calls.fill_in(generation, question, prompts.Picture, save)
    except GenerationFailed as failure:
        if failure.code not in OPTIONAL:
            raise
        log.warning("coursegen.lesson_without_picture", lesson=number, error=failure.code)
        async with generation.transaction() as tx:
            await courses.save_picture(tx, generation.course_id, number, {})
