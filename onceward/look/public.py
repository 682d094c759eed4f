"""The frame of public pages: `{% extends "public.html" %}` gives a page the bar, the colours and the components."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from onceward.look.organizations import Brand

TEMPLATES = Path(__file__).parent / "templates"


def public_templates(folder: Path) -> Environment:
    """Return the templates of an app's public pages, with the frame that all share.

    Give each page `brand=Brand(...)`, or None if it belongs to no organization.
    """
    environment = Environment(loader=FileSystemLoader((folder, TEMPLATES)), autoescape=True, undefined=StrictUndefined)
    shared = cast(dict[str, Any], environment.globals)  # pyright: ignore[reportUnknownMemberType]
    shared["brand"] = None
    return environment


@cache
def _plain() -> Environment:
    return public_templates(TEMPLATES)


def plain_page(
    title: str,
    content: str,
    *,
    name: str,
    home: str = "#main",
    language: str = "en",
    skip: str = "Skip to the content",
    width: str = "narrow",
    brand: Brand | None = None,
) -> str:
    """Return a small page of the engine. `content` is HTML; `name` stands in the bar and leads to `home`.

    With a `brand`, the page has the colour, the logo and the name of an organization.
    """
    return (
        _plain()
        .get_template("plain.html")
        .render(
            title=title,
            content=Markup(content),
            name=name,
            home=home,
            language=language,
            skip=skip,
            width=width,
            brand=brand,
        )
    )
