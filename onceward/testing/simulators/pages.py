"""The pages of simulators: payments and surveys."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined

_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "pages"), autoescape=True, undefined=StrictUndefined
)


@dataclass(frozen=True, slots=True)
class Line:
    """One item of the payment."""

    name: str
    quantity: int
    amount: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One possible outcome of the simulated payment."""

    value: str
    title: str
    hint: str


def written_amount(amount: int, currency: str, *, decimals: int) -> str:
    """Format an amount of a service's API with its currency."""
    return f"{Decimal(amount).scaleb(-decimals):,.{decimals}f} {currency.upper()}"


def payment_page(
    *,
    service: str,
    total: str,
    lines: Sequence[Line],
    choices: Sequence[Choice],
    email: str | None,
    cancel_url: str | None,
    state: str,
    message: str | None = None,
    status: int = 200,
) -> web.Response:
    """Render a payment page. `state` is open, done or closed; only an open payment has buttons."""
    text = _templates.get_template("payment.html").render(
        service=service,
        total=total,
        lines=lines,
        choices=choices,
        email=email,
        cancel_url=cancel_url,
        state=state,
        message=message,
    )
    return _page(text, status=status)


def survey_page(*, questions: Sequence[str], ratings: Collection[str], done: bool = False) -> web.Response:
    """Render a survey with a field for each question, or the thanks. The form is sent to its own address."""
    return _page(_templates.get_template("survey.html").render(questions=questions, ratings=ratings, done=done))


def _page(text: str, *, status: int = 200) -> web.Response:
    return web.Response(
        text=text,
        status=status,
        content_type="text/html",
        headers={
            "Cache-Control": "no-store",
            # The page is one file: it needs no scripts and no external resources.
            "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
            "Referrer-Policy": "no-referrer",
        },
    )
