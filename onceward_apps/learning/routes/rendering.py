"""Render the HTML pages: templates, security headers, static files. No script is inline."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response

from onceward.services import exponent, format_amount
from onceward_apps.learning.app import HERE

STATIC: Path = HERE / "static"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: https:; connect-src 'self' ws: wss:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@cache
def _templates() -> Environment:
    environment = Environment(loader=FileSystemLoader(HERE / "pages"), autoescape=True, undefined=StrictUndefined)
    environment.filters["money"] = money
    environment.filters["digits"] = exponent
    environment.filters["day"] = day
    return environment


def money(amount: int, currency: str) -> str:
    return "free" if amount == 0 else format_amount(amount, currency, "en")


def day(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def page(name: str, *, status: int = 200, **values: Any) -> Response:
    headers = {
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",  # links of invites and sign-in contain their secret
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    text = _templates().get_template(name).render(**values)
    return Response(text, status_code=status, media_type="text/html", headers=headers)


def missing(what: str) -> Response:
    return page("missing.html", status=404, what=what)
