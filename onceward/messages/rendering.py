"""Turn a template and a message's data into text. Sandboxed, strict: a missing variable fails before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_datetime, format_time
from babel.numbers import format_decimal
from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, UndefinedError, pass_context
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

from onceward.messages.errors import MissingVariable
from onceward.messages.templates import Template
from onceward.providers.outbound.money import format_amount
from onceward.work import PayloadInvalid

LAYOUT = Path(__file__).parent / "layout.html"

WORDS: dict[str, dict[str, str]] = {
    "en": {"unsubscribe": "Unsubscribe", "why": "You get this mail because you are registered with {brand}."},
    "pt": {"unsubscribe": "Cancelar inscrição", "why": "Você recebe este e-mail porque está cadastrado em {brand}."},
    "de": {"unsubscribe": "Abmelden", "why": "Sie erhalten diese Mail, weil Sie bei {brand} registriert sind."},
    "ru": {"unsubscribe": "Отписаться", "why": "Вы получили это письмо, потому что зарегистрированы в {brand}."},
}
"""The layout's own words, where the language is known; English elsewhere."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """What is said, in the language that was found for it. `text` is for the channel it was rendered for."""

    locale: str
    subject: str
    text: str
    html: str


def render(
    template: Template,
    data: Mapping[str, Any],
    *,
    locale: str | None,
    default_locale: str = "en",
    zone: ZoneInfo | None = None,
    channel: str = "email",
    brand: str = "Onceward",
    unsubscribe_url: str | None = None,
) -> Rendered:
    """All parts, or an error that names the template, its language and what is missing."""
    found = template.locale_for(locale, default_locale)
    parts = template.locales[found]
    # The words follow the template's language; numbers and dates the region that was asked for, if it is the same language.
    region = locale if locale and locale.replace("_", "-").split("-")[0] == found.split("-")[0] else found
    values = {**data, "_locale": region, "_zone": zone or ZoneInfo("UTC")}

    def fill(source: str, *, html: bool, **more: Any) -> str:
        try:
            return _compiled(source, html).render({**values, **more})
        except UndefinedError as error:
            raise MissingVariable(f"template {template.name!r} ({found}): {error.message}") from None
        except (TemplateError, SecurityError, TypeError, ValueError, ArithmeticError) as error:
            raise PayloadInvalid(f"template {template.name!r} ({found}): {error}") from None

    subject = " ".join(fill(parts["subject"], html=False).split())
    text = fill(parts.get(channel, parts["text"]), html=False)
    if channel != "email":
        return Rendered(found, subject, text, "")
    content = fill(parts["html"], html=True) if "html" in parts else _paragraphs(text)
    words = WORDS.get(found.split("-")[0], WORDS["en"])
    html = fill(
        _layout(),
        html=True,
        subject=subject,
        content=Markup(content),
        brand=brand,
        lang=found,
        why=words["why"].format(brand=brand),
        unsubscribe=words["unsubscribe"],
        unsubscribe_url=unsubscribe_url,
    )
    return Rendered(found, subject, text, html)


def check(template: Template) -> None:
    """Every part of every language compiles; raises PayloadInvalid naming the one that does not."""
    for locale, parts in template.locales.items():
        for part, source in parts.items():
            try:
                _compiled(source, part == "html")
            except TemplateSyntaxError as error:
                raise PayloadInvalid(
                    f"template {template.name!r}, {locale} {part}, line {error.lineno}: {error.message}"
                ) from None


def _paragraphs(text: str) -> str:
    """Plain text as HTML: an empty line ends a paragraph, addresses become links."""
    return str(
        _compiled(
            "{% for part in parts %}<p>{{ part|urlize|replace('\n', '<br>'|safe) }}</p>\n{% endfor %}", True
        ).render(parts=text.split("\n\n"))
    )


@lru_cache(maxsize=1)
def _layout() -> str:
    return LAYOUT.read_text(encoding="utf-8")


@lru_cache(maxsize=2048)
def _compiled(source: str, html: bool) -> Any:
    return _environment(html).from_string(source)


@lru_cache(maxsize=2)
def _environment(html: bool) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, autoescape=html, trim_blocks=True, lstrip_blocks=True
    )
    filters = cast("dict[str, Any]", environment.filters)  # pyright: ignore[reportUnknownMemberType]
    for name, function in (
        ("money", _money),
        ("number", _number),
        ("date", _date),
        ("time", _time),
        ("datetime", _datetime),
    ):
        filters[name] = pass_context(function)
    filters["cut"] = cut
    return environment


# -- filters: values as people of the language write them ----------------------------------------------------------


def cut(text: Any, most: int) -> str:
    """At most so many characters, with an ellipsis where something was cut."""
    text = str(text)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _locale(context: Any) -> Locale:
    try:
        return Locale.parse(str(context["_locale"]).replace("-", "_"))
    except (UnknownLocaleError, ValueError):
        return Locale("en")


def _money(context: Any, minor: int, currency: str) -> str:
    """Minor units with their currency: 1990|money("EUR")."""
    return format_amount(minor, currency, _locale(context))


def _number(context: Any, value: Any) -> str:
    return format_decimal(value, locale=_locale(context))


def _moment(context: Any, value: Any) -> datetime:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    if moment.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone")
    return moment.astimezone(context["_zone"])


def _date(context: Any, value: Any, format: str = "long") -> str:
    if isinstance(value, str) and len(value) == 10:
        return format_date(date.fromisoformat(value), format=format, locale=_locale(context))
    return format_date(_moment(context, value), format=format, locale=_locale(context))


def _time(context: Any, value: Any, format: str = "short") -> str:
    return format_time(_moment(context, value), format=format, locale=_locale(context), tzinfo=context["_zone"])


def _datetime(context: Any, value: Any, format: str = "long") -> str:
    return format_datetime(_moment(context, value), format=format, locale=_locale(context), tzinfo=context["_zone"])
