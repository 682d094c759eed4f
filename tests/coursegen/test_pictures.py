"""Drawings of lessons: an extra that never ends a course, and nothing in which a reader's browser could run something."""

from __future__ import annotations

import base64
from typing import Any
from xml.etree import ElementTree

import pytest

from onceward_apps.coursegen import course_views, export_pages
from onceward_apps.coursegen.pictures import ATTRIBUTES, ELEMENTS, clean_svg
from tests.coursegen.school import School

pytestmark = pytest.mark.acceptance("004-H pictures")

HOSTILE = """
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 800 450" onload="steal()" width="9">
  <script>steal()</script><style>@import 'https://evil.example'</style>
  <image href="https://evil.example/a.png"/><foreignObject><p>text</p></foreignObject>
  <a xlink:href="javascript:steal()"><text x="1" y="2">link</text></a>
  <rect fill="url(https://evil.example/#a)" stroke="url(#own)" style="x" width="10" height="10" onclick="steal()"/>
  <use href="#x"/><animate attributeName="x"/><text x="5" y="6">kept &lt;b&gt;</text>
</svg>"""


async def shown(school: School, course_id: Any) -> dict[str, Any]:
    course, version = await school.course(course_id), await school.version(course_id)
    return course_views.whole(course, version, await school.lessons(course_id))


async def test_each_lesson_gets_a_drawing_and_no_drawing_is_paid_for_twice(school: School) -> None:
    course_id = await school.generate(pictures=True)
    course = await shown(school, course_id)
    assert len(course["lessons"]) == 2
    for lesson in course["lessons"]:
        svg = base64.b64decode(lesson["picture"]["uri"].partition(",")[2]).decode()
        assert ElementTree.fromstring(svg).get("viewBox") == "0 0 800 450"
        assert lesson["picture"]["alt"]
    page = export_pages.as_html(course)
    assert page.count('<img src="data:image/svg+xml;base64,') == 2
    drawn = [call["item"] for call in await school.calls(course_id) if call["item"].startswith("picture")]
    assert drawn == ["picture:1", "picture:2"]
    await school.accept(course_id, lesson=2)
    await school.drain()
    drawn = [call["item"] for call in await school.calls(course_id) if call["item"].startswith("picture")]
    assert drawn == ["picture:1", "picture:2", "picture:2"], "only the lesson that was written again"


@pytest.mark.parametrize("refused", [True, False])
async def test_a_drawing_that_does_not_come_leaves_the_lesson_without_one(school: School, refused: bool) -> None:
    real = school.openai.write

    def write(body: dict[str, Any]) -> str:
        text = real(body)
        if refused and "Write lesson" in str(body["messages"]):
            school.openai.refuse()  # the next call, which is for the drawing
        return '{"alt": "x", "svg": "<p>no</p>"}' if '"svg"' in text else text

    school.openai.write = write
    course_id = await school.generate(lessons=1, pictures=True)
    assert (await school.course(course_id))["status"] == "completed"
    [lesson] = (await shown(school, course_id))["lessons"]
    assert lesson["picture"] is None
    assert lesson["content"]
    drawn = [call["item"] for call in await school.calls(course_id) if call["item"].startswith("picture")]
    assert drawn == (["picture:1"] if refused else ["picture:1", "picture:1:repair"])


async def test_a_course_without_drawings_asks_for_none(school: School) -> None:
    course_id = await school.generate(lessons=1)
    assert len(await school.calls(course_id)) == 4


def test_only_shapes_lines_and_texts_are_kept() -> None:
    kept = ElementTree.fromstring(clean_svg(HOSTILE))
    names = {node.tag.rpartition("}")[2] for node in kept.iter()}
    assert names == {"svg", "rect", "text"}
    assert names <= ELEMENTS
    assert {name for node in kept.iter() for name in node.attrib} <= ATTRIBUTES
    text = clean_svg(HOSTILE)
    for word in ("steal", "evil", "javascript", "style", "onload", "href", "<b>"):
        assert word not in text
    assert "kept &lt;b&gt;" in text
    assert 'stroke="url(#own)"' in text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<p>no</p>", "must be one <svg>"),
        ('<svg viewBox="0 0 1 1"><g></svg>', "not well-formed"),
        ("<svg></svg>", "a viewBox of four numbers"),
        ('<svg viewBox="0 0 1 1"><!DOCTYPE x [<!ENTITY a "b">]></svg>', "declarations"),
        ('<svg viewBox="0 0 1 1">' + "<g/>" * 500 + "</svg>", "at most 400 elements"),
    ],
)
def test_what_is_not_a_drawing_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        clean_svg(text)
