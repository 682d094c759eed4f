"""Every text of the pages for visitors and students exists in Portuguese, with the same placeholders."""

from __future__ import annotations

import re

import pytest

from onceward_apps.learning.app import HERE
from onceward_apps.learning.page_texts import PT, accepted
from onceward_apps.learning.routes.templates import LANGUAGE, page

IN_PAGE = re.compile(r'\bt\("([^"]+)"')
IN_SCRIPT = re.compile(r'\bt\("([^"]+)"')
ENTRY = re.compile(r'^  "([^"]+)": "([^"]+)",$', re.MULTILINE)
WORDS = re.compile(r">[^<>{}]*[A-Za-z]{2,}[^<>{}]*<")


def holes(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


def test_every_text_of_a_page_is_translated() -> None:
    pages = {path.name: path.read_text() for path in (HERE / "pages").glob("*.html")}
    used = {text for source in pages.values() for text in IN_PAGE.findall(source)} | {"Free"}
    assert used == set(PT)
    for english, portuguese in PT.items():
        assert holes(english) == holes(portuguese), english
    for name, source in pages.items():
        words = WORDS.findall(re.sub(r"{%.*?%}|{{.*?}}", "", source))
        # The name of a standard, and an address.
        assert [each for each in words if each.strip("<>\n ") not in ("Open Badge", "/learn")] == [], name


def test_every_text_of_a_script_is_translated() -> None:
    scripts = [path.read_text() for path in (HERE / "static").glob("*.js") if path.name != "texts.js"]
    used = {text for source in scripts for text in IN_SCRIPT.findall(source)}
    table = (HERE / "static" / "texts.js").read_text().partition("PT_ERRORS")[0]
    translated = dict(ENTRY.findall(table))
    assert used == set(translated)
    for english, portuguese in translated.items():
        assert holes(english) == holes(portuguese), english


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (None, "en"),
        ("pt-BR,pt;q=0.9,en;q=0.8", "pt"),
        ("en-US,pt;q=0.5", "en"),
        ("de,pt;q=0.4,en;q=0.2", "pt"),
        ("de", "en"),
        ("pt;q=x", "en"),
    ],
)
def test_a_page_has_the_language_that_the_browser_asks_for(header: str | None, language: str) -> None:
    assert accepted(header) == language


def test_values_in_a_translated_page_are_escaped() -> None:
    token = LANGUAGE.set("pt")
    try:
        body = bytes(page("catalogue.html", school={"name": "<b>&"}, cohorts=[]).body).decode()
    finally:
        LANGUAGE.reset(token)
    assert '<html lang="pt">' in body
    assert "Cursos de &lt;b&gt;&amp;" in body
