"""Render the HTML pages: templates, language, security headers, static files. No script is inline."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import Response

from onceward import Tx
from onceward.look import Brand, brand_of, public_templates
from onceward.money import exponent, format_amount
from onceward_apps.learning.app import HERE
from onceward_apps.learning.page_texts import Language, accepted, translate

LANGUAGE: ContextVar[Language] = ContextVar("learning_page_language", default="en")
"""The language of the pages that the current request gets."""

STATIC: Path = HERE / "static"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: https:; connect-src 'self' ws: "
    "wss:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@cache
def _templates() -> Environment:
    environment = public_templates(HERE / "pages")
    environment.filters["money"] = money
    environment.filters["digits"] = exponent
    environment.filters["day"] = day
    environment.filters["date"] = date
    environment.globals["t"] = text
    return environment


async def choose_language(request: Request) -> None:
    """A dependency of every router with pages."""
    LANGUAGE.set(accepted(request.headers.get("accept-language")))


def text(words: str, **values: Any) -> str:
    """Return a text in the language of the page. The template escapes it."""
    return translate(LANGUAGE.get(), words, **values)


def money(amount: int, currency: str) -> str:
    return text("Free") if amount == 0 else format_amount(amount, currency, LANGUAGE.get())


def day(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def date(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


def page(name: str, *, status: int = 200, **values: Any) -> Response:
    headers = {
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",  # links of invites and sign-in contain their secret
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        "Vary": "Accept-Language",
    }
    body = _templates().get_template(name).render(language=LANGUAGE.get(), **values)
    return Response(body, status_code=status, media_type="text/html", headers=headers)


async def school_of(tx: Tx) -> Brand | None:
    """Return whose page it is. The name in the bar leads to the catalogue."""
    return await brand_of(tx, tx.organization, "/learn/o/{slug}")


def missing() -> Response:
    return page("missing.html", status=404)
