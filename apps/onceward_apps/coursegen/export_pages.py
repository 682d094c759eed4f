"""Exports of a course for readers and learning systems: one HTML page, or a SCORM 1.2 package."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from html import escape
from typing import Any

from markdown_it import MarkdownIt

from onceward_apps.coursegen import texts

STYLE = (
    "body{font:1rem/1.6 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;color:#1c1c1c}"
    "pre{background:#f4f4f4;padding:1rem;overflow:auto}details{margin:.5rem "
    "0}h1,h2{line-height:1.2}img{max-width:100%;height:auto}"
)
WRITTEN_AT = (1980, 1, 1, 0, 0, 0)
"""The time of every file in a package, so that the same course gives the same bytes."""

SCRIPT = """\
// Tells the learning system that the lesson was opened. It finds the SCORM 1.2 interface in a window above this one.
(function () {
  var at = window, api = null;
  for (var depth = 0; depth < 10 && !api; depth += 1) {
    try { api = at.API || (at.opener && at.opener.API) || null; } catch (error) { api = null; }
    if (at === at.parent) break;
    at = at.parent;
  }
  if (!api) return;
  api.LMSInitialize("");
  if (api.LMSGetValue("cmi.core.lesson_status") !== "completed") {
    api.LMSSetValue("cmi.core.lesson_status", "completed");
    api.LMSCommit("");
  }
  window.addEventListener("pagehide", function () { api.LMSFinish(""); });
})();
"""


def to_html(text: str) -> str:
    """Return Markdown as HTML. HTML in it stays text, and links of dangerous schemes stay text too."""
    return MarkdownIt("commonmark", {"html": False}).render(text)


def as_html(course: Mapping[str, Any]) -> str:
    """Return a course as one page that needs no other file."""
    body = "".join(f"<section>{_lesson(course, lesson, 'h2')}</section>" for lesson in course["lessons"])
    head = f"<h1>{escape(course['title'])}</h1>{to_html(course['description'])}"
    return _page(course["title"], course["language"], f"{head}{body}{_sources(course, 'h2')}")


def as_scorm(course: Mapping[str, Any]) -> bytes:
    """Return a SCORM 1.2 package with one item for each lesson. A lesson is completed when it is opened."""
    files = {"imsmanifest.xml": _manifest(course), "scorm.js": SCRIPT}
    for lesson in course["lessons"]:
        content = _lesson(course, lesson, "h1") + _sources(course, "h2")
        files[_file(lesson)] = _page(lesson["title"], course["language"], content, script="scorm.js")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in files.items():
            package.writestr(zipfile.ZipInfo(name, WRITTEN_AT), text.encode(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _file(lesson: Mapping[str, Any]) -> str:
    return f"lesson-{lesson['position']:02}.html"


def _page(title: str, language: str, body: str, *, script: str | None = None) -> str:
    tag = "" if script is None else f'<script src="{script}" defer></script>'
    return (
        f'<!doctype html><html lang="{escape(language)}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>{tag}</head><body>{body}</body></html>\n"
    )


def _lesson(course: Mapping[str, Any], lesson: Mapping[str, Any], tag: str) -> str:
    """Return one lesson with its exercises; an answer is shown when the reader asks for it."""
    locale = texts.locale_of(course["language"])
    parts = [f"<{tag}>{lesson['position']}. {escape(lesson['title'])}</{tag}>"]
    parts.append(to_html(lesson["content"] or lesson["summary"]))
    if lesson["picture"]:
        parts.append(f'<p><img src="{lesson["picture"]["uri"]}" alt="{escape(lesson["picture"]["alt"])}"></p>')
    if lesson["exercises"]:
        parts.append(f"<h3>{escape(texts.text('step.4', locale))}</h3><ol>")
        for each in lesson["exercises"]:
            answer = f"{to_html(each['answer'])}{to_html(each['explanation'])}"
            word = escape(texts.text("export.answer", locale))
            parts.append(f"<li>{to_html(each['question'])}<details><summary>{word}</summary>{answer}</details></li>")
        parts.append("</ol>")
    return "".join(parts)


def _sources(course: Mapping[str, Any], tag: str) -> str:
    """Return the list of the texts that the course was written from; nothing if there are none."""
    if not course["sources"]:
        return ""
    word = escape(texts.text("export.sources", texts.locale_of(course["language"])))
    items = "".join(
        f"<li>{escape(each['title'])}</li>"
        if each["url"] is None
        else f'<li><a href="{escape(each["url"])}" rel="noopener noreferrer">{escape(each["title"])}</a></li>'
        for each in course["sources"]
    )
    return f"<{tag}>{word}</{tag}><ol>{items}</ol>"


def _manifest(course: Mapping[str, Any]) -> str:
    items = "".join(
        f'<item identifier="item-{each["position"]}" identifierref="resource-{each["position"]}">'
        f"<title>{escape(each['title'])}</title></item>"
        for each in course["lessons"]
    )
    resources = "".join(
        f'<resource identifier="resource-{each["position"]}" type="webcontent" adlcp:scormtype="sco" '
        f'href="{_file(each)}"><file href="{_file(each)}"/><file href="scorm.js"/></resource>'
        for each in course["lessons"]
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<manifest identifier="course-{course["id"]}" version="{course["version"] or 1}"'
        ' xmlns="http://www.imsproject.org/xsd/imscp_rootv1p1p2"'
        ' xmlns:adlcp="http://www.adlnet.org/xsd/adlcp_rootv1p2">'
        "<metadata><schema>ADL SCORM</schema><schemaversion>1.2</schemaversion></metadata>"
        f'<organizations default="course"><organization identifier="course"><title>{escape(course["title"])}</title>'
        f"{items}</organization></organizations><resources>{resources}</resources></manifest>\n"
    )
