"""The preference page of a recipient: opened by a link, without a login."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import time
from html import escape
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from onceward.db import Database
from onceward.engine import Engine
from onceward.look.public import plain_page
from onceward.messages.preference_page import (
    WORDS,
    Cell,
    OpenedLink,
    Topic,
    cells_of,
    chosen,
    digests_of,
    open_link,
    save_choice,
    save_habits,
    topics_of,
)
from onceward.messages.settings import MessagesSettings
from onceward.settings import Settings
from onceward.web.api import database_of, engine_of, settings_of
from onceward.web.exposure import exposed

Db = Annotated[Database, Depends(database_of)]
TheEngine = Annotated[Engine, Depends(engine_of)]
TheSettings = Annotated[Settings, Depends(settings_of)]
HEADERS = {
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'"
    ),
}
MOST_FORM_BYTES = 64 * 1024

router = APIRouter(tags=["preferences"])


@router.get("/preferences/{token}", response_class=HTMLResponse, include_in_schema=False)
@exposed(credential="link in the message")
async def show_preferences(
    token: str, request: Request, db: Db, engine: TheEngine, settings: TheSettings
) -> HTMLResponse:
    """Show what the recipient gets. A GET changes nothing, because mail scanners follow links."""
    return await _answer(token, request, db, engine, settings, is_saving=False)


@router.post("/preferences/{token}", response_class=HTMLResponse, include_in_schema=False)
@exposed("nothing", credential="link in the message")
async def save_preferences(
    token: str, request: Request, db: Db, engine: TheEngine, settings: TheSettings
) -> HTMLResponse:
    """Store what the recipient wants to get."""
    return await _answer(token, request, db, engine, settings, is_saving=True)


async def _answer(
    token: str, request: Request, db: Database, engine: Engine, settings: Settings, *, is_saving: bool
) -> HTMLResponse:
    own = settings.of(MessagesSettings)
    link = await open_link(db, token)
    locale = (link and link.locale) or _accepted(request) or own.default_locale
    words = WORDS.get(locale.replace("_", "-").split("-")[0], WORDS["en"])
    if link is None:
        return _page(locale, words, own.brand, f"<p>{escape(words['gone'])}</p>", status=404)
    topics = topics_of(engine.templates, locale, own.default_locale)
    cells = cells_of(topics, link)
    if not cells:
        return _page(locale, words, own.brand, f"<p>{escape(words['none'])}</p>")
    if is_saving:
        form = await request.form(max_fields=1000)
        wanted = [cell for cell in cells if form.get(_name(cell)) == "on"]
        await save_choice(db, link, cells, wanted)
        await save_habits(db, link, _digests(form, topics), _quiet(form, link))
        link = await open_link(db, token) or link
    zone = link.timezone or own.default_timezone
    content = _form(
        topics, link, await chosen(db, link, cells), await digests_of(db, link), words, zone, is_saved=is_saving
    )
    return _page(locale, words, own.brand, content)


def _accepted(request: Request) -> str | None:
    """Return the first language of the browser that the page has."""
    for each in request.headers.get("accept-language", "")[:200].split(","):
        language = each.split(";")[0].strip()
        if language.split("-")[0] in WORDS:
            return language
    return None


def _name(cell: Cell) -> str:
    return f"{cell[0]}|{cell[1]}"


def _digests(form: Mapping[str, Any], topics: Collection[Topic]) -> dict[str, str | None]:
    """Return the digest of each topic in the form. A topic that the form does not name stays as it is."""
    chosen = {topic.name: form.get(f"digest|{topic.name}") for topic in topics if topic.is_digestible}
    return {
        name: None if period == "single" else str(period)
        for name, period in chosen.items()
        if period in ("single", "daily", "weekly")
    }


def _quiet(form: Mapping[str, Any], link: OpenedLink) -> tuple[time, time] | None:
    """Return the quiet hours in the form; what cannot be read changes nothing."""
    texts = [form.get("quiet_from"), form.get("quiet_to")]
    if texts == ["", ""]:
        return None
    try:
        start, end = (time.fromisoformat(str(text)) for text in texts)
    except ValueError:
        return link.quiet
    return start, end


def _form(
    topics: Collection[Topic],
    link: OpenedLink,
    on: set[Cell],
    digests: Mapping[str, str],
    words: dict[str, Any],
    zone: str,
    *,
    is_saved: bool,
) -> str:
    parts = [f'<p role="status" class="message good">{escape(words["saved"])}</p>'] if is_saved else []
    parts.append(f"<p>{escape(words['intro'])}</p><form method=post>")
    for topic in topics:
        boxes = "".join(
            _box((topic.name, channel), words[channel], (topic.name, channel) in on) for channel in link.channels
        )
        if topic.is_digestible and "email" in link.channels:
            boxes += _select(topic.name, digests.get(topic.name, "single"), words)
        parts.append(f"<fieldset><legend>{escape(topic.title)}</legend>{boxes}</fieldset>")
    parts.append(_quiet_hours(link, words, zone))
    parts.append(
        f'<button class="main">{escape(words["save"])}</button></form><p class="small">{escape(words["note"])}</p>'
    )
    return "".join(parts)


def _box(cell: Cell, label: str, is_on: bool) -> str:
    checked = " checked" if is_on else ""
    return f'<label><input type=checkbox name="{escape(_name(cell))}"{checked}> {escape(label)}</label>'


def _select(topic: str, period: str, words: dict[str, Any]) -> str:
    options = "".join(
        f'<option value="{each}"{" selected" if each == period else ""}>{escape(words[each])}</option>'
        for each in ("single", "daily", "weekly")
    )
    return f'<label>{escape(words["digest"])} <select name="{escape(f"digest|{topic}")}">{options}</select></label>'


def _quiet_hours(link: OpenedLink, words: dict[str, Any], zone: str) -> str:
    start, end = (each.isoformat("minutes") for each in link.quiet) if link.quiet else ("", "")
    note = escape(words["quiet_note"].format(zone=zone))
    return (
        f"<fieldset><legend>{escape(words['quiet'])}</legend>"
        f'<label>{escape(words["quiet_from"])} <input type=time name=quiet_from value="{start}"></label>'
        f'<label>{escape(words["quiet_to"])} <input type=time name=quiet_to value="{end}"></label>'
        f'<p class="small">{note}</p></fieldset>'
    )


def _page(locale: str, words: dict[str, Any], brand: str, content: str, *, status: int = 200) -> HTMLResponse:
    page = plain_page(words["title"], content, name=brand, language=locale, skip=words["skip"])
    return HTMLResponse(page, status_code=status, headers=HEADERS)
