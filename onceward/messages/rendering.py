"""Render a template with a message's data. Templates are sandboxed; a missing variable fails before the send."""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from zoneinfo import ZoneInfo

from onceward.lazy import lazy_module
from onceward.look.colours import DARK, LIGHT
from onceward.messages.approved import PART, expressions
from onceward.messages.errors import MissingVariable
from onceward.messages.templates import Template
from onceward.money import format_amount
from onceward.work import PayloadInvalid

if TYPE_CHECKING:
    import babel
    import jinja2
    import markupsafe
    from babel import dates, numbers
    from jinja2 import exceptions, sandbox
else:
    babel = lazy_module("babel")
    jinja2 = lazy_module("jinja2")
    markupsafe = lazy_module("markupsafe")
    dates = lazy_module("babel.dates")
    numbers = lazy_module("babel.numbers")
    exceptions = lazy_module("jinja2.exceptions")
    sandbox = lazy_module("jinja2.sandbox")

Form = Literal["text", "html", "slack"]
"""How values are escaped: not at all, for HTML, or for Slack's markup."""
LITERAL_URL = re.compile(r"https?://[^\s<>\"'{}]+(?![^\s<>\"'])")
"""A whole URL in the source of a template, without variables."""
LAYOUT = Path(__file__).parent / "layout.html"

WORDS: dict[str, dict[str, str]] = {
    "en": {"unsubscribe": "Unsubscribe", "why": "You get this mail because you are registered with {brand}."},
    "pt": {"unsubscribe": "Cancelar inscrição", "why": "Você recebe este e-mail porque está cadastrado em {brand}."},
    "de": {"unsubscribe": "Abmelden", "why": "Sie erhalten diese Mail, weil Sie bei {brand} registriert sind."},
    "ru": {"unsubscribe": "Отписаться", "why": "Вы получили это письмо, потому что зарегистрированы в {brand}."},
}
"""Texts of the mail layout by language; other languages get English."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The rendered texts and their language. `text` is the one for the requested channel."""

    locale: str
    subject: str
    text: str
    html: str
    parameters: tuple[str, ...] = ()
    """The values of the variables of an approved text, in the order of `approved.numbered`."""
    links: frozenset[str] = frozenset()
    """The URLs in the text of a mail that are our own."""


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
    own_links: Collection[str] = (),
) -> Rendered:
    """Render all parts, or raise an error that names the template, its language and what is missing."""
    chosen = template.locale_for(locale, default_locale)
    parts = template.locales[chosen]
    # Numbers and dates follow the requested region if the template has its language.
    region = locale if locale and locale.replace("_", "-").split("-")[0] == chosen.split("-")[0] else chosen
    links: set[str] = set(own_links)
    values = {**data, "_locale": region, "_zone": zone or ZoneInfo("UTC"), "_links": links}

    def fill(source: str, *, form: Form, **more: Any) -> str:
        try:
            return _compiled(source, form).render({**values, **more})
        except jinja2.UndefinedError as error:
            raise MissingVariable(f"template {template.name!r} ({chosen}): {error.message}") from None
        except (jinja2.TemplateError, exceptions.SecurityError, TypeError, ValueError, ArithmeticError) as error:
            raise PayloadInvalid(f"template {template.name!r} ({chosen}): {error}") from None

    plain: Form = "slack" if channel == "slack" else "text"
    subject = " ".join(fill(parts["subject"], form=plain).split())
    source = parts.get(channel, parts["text"])
    text = fill(source, form=plain)
    if channel != "email":
        variables = expressions(parts.get(PART, "")) if channel == "whatsapp" else ()
        return Rendered(chosen, subject, text, "", tuple(fill("{{ " + each + " }}", form=plain) for each in variables))
    links |= {url.rstrip(".,;:!?)") for url in LITERAL_URL.findall(source)}
    content = fill(parts["html"], form="html") if "html" in parts else _paragraphs(text, links)
    words = WORDS.get(chosen.split("-")[0], WORDS["en"])
    if unsubscribe_url is not None:
        text = f"{text}\n\n-- \n{words['unsubscribe']}: {unsubscribe_url}"
    html = fill(
        _layout(),
        form="html",
        subject=subject,
        content=markupsafe.Markup(content),
        brand=brand,
        lang=chosen,
        why=words["why"].format(brand=brand),
        unsubscribe=words["unsubscribe"],
        unsubscribe_url=unsubscribe_url,
    )
    return Rendered(chosen, subject, text, html, links=frozenset(links))


def check(template: Template) -> None:
    """Compile every part in every language; raise PayloadInvalid with the name of the first that does not compile."""
    for locale, parts in template.locales.items():
        for part, source in parts.items():
            try:
                _compiled(source, "html" if part == "html" else "text")
            except jinja2.TemplateSyntaxError as error:
                raise PayloadInvalid(
                    f"template {template.name!r}, {locale} {part}, line {error.lineno}: {error.message}"
                ) from None


def variables(source: str) -> frozenset[str]:
    """Return the names of the variables that a text uses."""
    from jinja2 import meta

    return frozenset(meta.find_undeclared_variables(_environment("text").parse(source)))


def _paragraphs(text: str, links: set[str]) -> str:
    """Convert plain text to HTML: an empty line ends a paragraph, and `links` become links.

    No other URL does, because a value may come from a stranger, who would then put a link into our mail.
    """
    escaped = str(markupsafe.escape(text))
    if links:
        known = sorted((str(markupsafe.escape(link)) for link in links), key=len, reverse=True)
        pattern = rf"(?<!\S)({'|'.join(map(re.escape, known))})(?=[.,;:!?)]*(?:\s|$))"
        escaped = re.sub(pattern, r'<a href="\1" rel="noopener">\1</a>', escaped)
    return "".join(f"<p>{part.replace(chr(10), '<br>')}</p>\n" for part in escaped.split("\n\n"))


@lru_cache(maxsize=1)
def _layout() -> str:
    """Return the layout with the colours of the one look. Mail programs do not know CSS variables."""
    themes = (("light", LIGHT), ("dark", DARK))
    colours = {f"{theme}_{name.replace('-', '_')}": value for theme, all in themes for name, value in all.items()}
    return string.Template(LAYOUT.read_text(encoding="utf-8")).substitute(colours)


@lru_cache(maxsize=2048)
def _compiled(source: str, form: Form) -> Any:
    template = _environment(form).from_string(source)
    template.globals = dict(template.globals)  # a chain of mappings would be walked for each mail
    return template


@lru_cache(maxsize=3)
def _environment(form: Form) -> sandbox.ImmutableSandboxedEnvironment:
    environment = sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined,
        autoescape=form == "html",
        finalize=_escape_for_slack if form == "slack" else None,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = cast("dict[str, Any]", environment.filters)  # pyright: ignore[reportUnknownMemberType]
    for name, function in (
        ("money", _money),
        ("number", _number),
        ("date", _date),
        ("time", _time),
        ("datetime", _datetime),
        ("link", _html_link if form == "html" else _text_link),
    ):
        filters[name] = jinja2.pass_context(function)
    filters["cut"] = cut
    return environment


# -- filters: format values for the language and region ----------------------------------------------------------


def _escape_for_slack(value: Any) -> Any:
    """Escape a value, so that it can neither mention everybody (`<!channel>`) nor hide the address of a link."""
    if not isinstance(value, str):
        return value
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def cut(text: Any, most: int) -> str:
    """Cut the text to at most `most` characters, with an ellipsis at the end."""
    text = str(text)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _url(value: Any) -> str:
    url = str(value)
    if not url.startswith(("https://", "http://")) or any(each.isspace() for each in url):
        raise ValueError(f"{cut(url, 60)!r} is not a URL that can be a link: it must start with https:// or http://")
    return url


def _text_link(context: Any, value: Any) -> str:
    """Mark a URL of our own, so that it becomes a link in the HTML version of a mail."""
    context["_links"].add(_url(value))
    return str(value)


def _html_link(_context: Any, value: Any) -> markupsafe.Markup:
    return markupsafe.Markup('<a href="{0}" rel="noopener">{0}</a>').format(_url(value))


def _locale(context: Any) -> babel.Locale:
    try:
        return babel.Locale.parse(str(context["_locale"]).replace("-", "_"))
    except (babel.UnknownLocaleError, ValueError):
        return babel.Locale("en")


def _money(context: Any, minor: int, currency: str) -> str:
    """Format minor units: 1990|money("EUR")."""
    return format_amount(minor, currency, _locale(context))


def _number(context: Any, value: Any) -> str:
    return numbers.format_decimal(value, locale=_locale(context))


def _moment(context: Any, value: Any) -> datetime:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    if moment.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone; use an aware datetime")
    return moment.astimezone(context["_zone"])


def _date(context: Any, value: Any, format: str = "long") -> str:
    if isinstance(value, str) and len(value) == 10:
        return dates.format_date(date.fromisoformat(value), format=format, locale=_locale(context))
    return dates.format_date(_moment(context, value), format=format, locale=_locale(context))


def _time(context: Any, value: Any, format: str = "short") -> str:
    return dates.format_time(_moment(context, value), format=format, locale=_locale(context), tzinfo=context["_zone"])


def _datetime(context: Any, value: Any, format: str = "long") -> str:
    return dates.format_datetime(
        _moment(context, value), format=format, locale=_locale(context), tzinfo=context["_zone"]
    )
