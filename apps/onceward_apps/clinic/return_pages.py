"""Pages that a patient sees after the payment page: `/clinic/paid` and `/clinic/unpaid`, in English and Portuguese.

The address contains only the id of the appointment, which nobody can guess. The pages show the clinic, the amount and
the state of the payment: nothing about the patient, and not when or why the patient comes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request
from jinja2 import Environment
from starlette.responses import FileResponse, Response

from onceward import Engine
from onceward.look import Brand, public_templates
from onceward.money import format_amount
from onceward.web import ANYBODY, engine_of, exposed
from onceward_apps.clinic.app import APPOINTMENT, HERE, app
from onceward_apps.clinic.store import people, views

router = APIRouter(include_in_schema=False)
STYLE: Path = HERE / "static" / "clinic.css"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
CHECK_S = 5
CHECKS = 12
"""Stripe's webhook usually arrives within seconds. The page looks for it for a minute; after that, a link does."""

EngineHere = Annotated[Engine, Depends(engine_of)]
AppointmentId = Annotated[str, Query(max_length=100)]
State = Literal["received", "checking", "refunded", "confirming", "unpaid", "closed", "unknown"]

WORDS: dict[str, dict[str, tuple[str, str]]] = {
    "en": {
        "received": ("Payment received", "Thank you. Your payment has arrived."),
        "checking": ("Payment received", "Thank you. The clinic checks your payment and contacts you."),
        "refunded": ("Payment refunded", "Your payment goes back to you. This can take some days."),
        "confirming": ("Thank you", "Your payment is being confirmed. This takes a moment."),
        "unpaid": ("Nothing was paid", "You can pay later with the same link."),
        "closed": ("Nothing was paid", "There is nothing to pay for this appointment any more."),
        "unknown": ("Thank you", "The clinic confirms your payment with a message."),
        "again": ("Check again", ""),
        "pay": ("Pay now", ""),
        "skip": ("Skip to the content", ""),
    },
    "pt": {
        "received": ("Pagamento recebido", "Obrigado. O seu pagamento chegou."),
        "checking": ("Pagamento recebido", "Obrigado. A clínica verifica o seu pagamento e entra em contato."),
        "refunded": ("Pagamento devolvido", "O valor volta para você. Isso pode levar alguns dias."),
        "confirming": ("Obrigado", "O seu pagamento está sendo confirmado. Isso leva um momento."),
        "unpaid": ("Nada foi pago", "Você pode pagar mais tarde com o mesmo link."),
        "closed": ("Nada foi pago", "Não há mais nada a pagar por esta consulta."),
        "unknown": ("Obrigado", "A clínica confirma o seu pagamento com uma mensagem."),
        "again": ("Verificar novamente", ""),
        "pay": ("Pagar agora", ""),
        "skip": ("Ir para o conteúdo", ""),
    },
}
STATES: dict[str, State] = {
    "paid": "received",
    "partially_refunded": "received",
    "not_required": "received",
    "review": "checking",
    "refund_pending": "refunded",
    "refunded": "refunded",
    "disputed": "checking",
    "charged_back": "refunded",
}
"""What the page says for each payment status; for all others the payment has not arrived."""


def return_urls(appointment_id: UUID) -> tuple[str, str]:
    """Return the addresses to which Stripe sends a patient who paid, and one who did not."""
    base = app.services.settings.url.rstrip("/")
    return f"{base}/clinic/paid?appointment={appointment_id}", f"{base}/clinic/unpaid?appointment={appointment_id}"


@router.get("/clinic/paid")
@exposed("call", credential="id of the appointment", limit="one question to Stripe at a time per payment")
async def paid(
    engine: EngineHere,
    request: Request,
    appointment: AppointmentId = "",
    check: Annotated[int, Query(ge=0, le=CHECKS)] = 0,
) -> Response:
    """Show whether the payment has arrived. While it has not, the page looks again by itself."""
    row = await _payment(engine, appointment)
    if row is None:
        return _page(request, None, "unknown")
    state = STATES.get(row["payment_status"], "confirming")
    again = f"/clinic/paid?appointment={row['id']}"
    if state == "confirming" and check == 1:
        await _ask(engine, row)
    if state == "confirming" and check < CHECKS:
        refresh = {"Refresh": f"{CHECK_S}; url={again}&check={check + 1}"}
        return _page(request, row, state, again=again, headers=refresh)
    return _page(request, row, state, again=again if state == "confirming" else None)


@router.get("/clinic/unpaid")
@exposed(credential="id of the appointment")
async def unpaid(engine: EngineHere, request: Request, appointment: AppointmentId = "") -> Response:
    """Show that nothing was paid, with the way back to the payment page while it is open."""
    row = await _payment(engine, appointment)
    if row is None:
        return _page(request, None, "unpaid")
    state = STATES.get(row["payment_status"], "unpaid" if row["is_payable"] else "closed")  # or paid in another window
    return _page(request, row, state, pay=row["payment_url"] if state == "unpaid" else None)


@router.get("/clinic/static/clinic.css")
@exposed(credential=ANYBODY)
async def style() -> Response:
    return FileResponse(STYLE, media_type="text/css", headers={"Cache-Control": "max-age=300"})


async def _payment(engine: Engine, appointment: str) -> Any:
    """Return what the pages show about an appointment, or None if the address names none."""
    try:
        id = UUID(appointment)
    except ValueError:
        return None
    async with engine.transaction() as tx:
        clinic = await people.organization_of(tx, "appointment", str(id))
    if clinic is None:
        return None
    async with engine.transaction(organization=clinic) as tx:
        return await views.payment_page(tx, id)


async def _ask(engine: Engine, row: Any) -> None:
    """Ask Stripe about the open payment: its webhook may be late or lost."""
    async with engine.transaction(organization=row["organization_id"]) as tx:
        for each in await tx.payments.of(APPOINTMENT, row["id"]):
            if each.status in ("open", "processing"):
                await tx.payments.ask(each.id)


@cache
def _templates() -> Environment:
    return public_templates(HERE / "pages")


def _page(
    request: Request,
    row: Any,
    state: State,
    *,
    again: str | None = None,
    pay: str | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    spoken = (row and row["locale"]) or request.headers.get("accept-language", "")
    locale = "pt" if spoken.lower().startswith("pt") else "en"
    words = WORDS[locale]
    title, text = words[state]
    content = _templates().get_template("returned.html")
    html = content.render(
        language=locale,
        skip=words["skip"][0],
        title=title,
        text=text,
        state=state,
        brand=Brand(row["organization_id"], row["clinic"], "#main") if row else None,
        amount=format_amount(row["price"], row["currency"], locale) if row and row["price"] else None,
        link=(again, words["again"][0]) if again else (pay, words["pay"][0]) if pay else None,
    )
    return Response(html, media_type="text/html", headers={**HEADERS, **(headers or {})})


app.routes(router)
