"""All texts of pages that can be translated: those of templates, and those that desks declare."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

from jinja2 import Environment

from onceward.desk.desk import Desk
from onceward.desk.fields import entries
from onceward.look.languages import ATTRIBUTE, TOKEN, UNTOUCHED

LETTERS = re.compile(r"[A-Za-z]{2}")


def texts_of_template(path: Path) -> Iterator[str]:
    """Yield the texts that stand in a template, between its tags and its expressions."""
    environment = Environment()
    text, inside = "", 0
    for _, kind, value in environment.lex(path.read_text(encoding="utf-8")):
        if kind in ("variable_begin", "block_begin", "comment_begin"):
            inside += 1
            text += "\x00"
        elif kind in ("variable_end", "block_end", "comment_end"):
            inside -= 1
        elif kind == "data" and not inside:
            text += value
    yield from _texts(text)


def _texts(html: str) -> Iterator[str]:
    left = ""
    for match in TOKEN.finditer(html):
        tag = (match["tag"] or "").lower()
        if left:
            left = "" if tag == left and match["close"] else left
        elif tag:
            for _, value in ATTRIBUTE.findall(match[0]):
                yield from _pieces(value)
            left = tag if not match["close"] and (tag in UNTOUCHED or 'translate="no"' in match[0]) else ""
        else:
            yield from _pieces(match[0])


def _pieces(text: str) -> Iterator[str]:
    for piece in text.split("\x00"):
        words = " ".join(unescape(piece).split())
        if LETTERS.search(words) and not words.startswith("<!"):
            yield words


def texts_of_desk(desk: Desk) -> Iterator[str]:
    """Yield what a desk declares for people to read."""
    yield desk.title
    for role in desk.roles:
        yield from (role.title, role.help)
    for listing in desk.listings.values():
        yield from (listing.title, listing.noun, listing.nouns, listing.empty)
        yield from (name for name, _ in listing.presets)
        detail = desk.details.get(listing.name)
        for column in (*listing.columns, *(detail.facts if detail else ())):
            yield from (column.title, *column.words.values())
        if detail is not None:
            yield from detail.words.values()
    for action in desk.actions.values():
        yield action.title
        for entry in entries(action.model):
            yield from (entry.title, entry.help, *(word for _, word in entry.options))
    for figure in desk.figures:
        yield from (figure.title, figure.note)
    for chart in (*desk.charts, *(each for detail in desk.details.values() for each in detail.charts)):
        yield from (chart.title, chart.empty)
    for shortlist in desk.shortlists:
        yield shortlist.title
