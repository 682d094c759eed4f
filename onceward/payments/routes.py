"""`/pay/{id}`: our address of a payment's page. It leads to the page at the service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from onceward.context import Context
from onceward.payments.errors import NotFound, NotPayable, NotRefundable, PaymentPending
from onceward.payments.payment_pages import Visit, visit
from onceward.web.api import context_of
from onceward.web.exposure import exposed
from onceward.web.problems import Problem, request_id_of, respond

TEXTS = {
    "ended": (410, "This payment has ended", "Nothing was taken. Please start again where you came from."),
    "refused": (503, "This payment is not possible at the moment", "We have been informed. Please try again later."),
    "unavailable": (503, "The payment service is not available", "Please try again in a minute."),
}
PAGE = """<!doctype html><html lang="en"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><body style="font-family: system-ui, sans-serif; max-width: 32rem; margin: 4rem auto; padding: 0
1rem">
<h1>{title}</h1><p>{text}</p>{back}</body></html>"""
OWNER = "select organization_id from onceward.payments where id = $1"


router = APIRouter(include_in_schema=False)


def routers(_context: Context) -> Sequence[APIRouter]:
    return (router,)


STATUS: dict[type[Exception], int] = {NotFound: 404, NotPayable: 400, PaymentPending: 409, NotRefundable: 409}
"""What a route of an app answers if it does not catch what the machine refuses."""


def add_error_handlers(api: FastAPI) -> None:
    """Answer what the machine refuses with a problem document. Errors of the app's own set-up stay internal errors."""

    async def on_refusal(request: Request, error: Exception) -> Response:
        return respond(Problem(STATUS[type(error)], str(error)), request_id_of(request))

    for each in STATUS:
        api.add_exception_handler(each, on_refusal)


@router.get("/pay/{payment_id}")
@exposed("call", credential="id of the payment, which is random", limit="one page at the service per payment")
async def pay(payment_id: str, context: Annotated[Context, Depends(context_of)]) -> Response:
    engine = context.engine
    try:
        id = UUID(payment_id)
    except ValueError:
        return _answer(Visit("ended"))  # a person with a link that was cut
    async with engine.db.transaction(role="engine") as tx:
        organization = await tx.fetchval(OWNER, id)
    if organization is None:
        return _answer(Visit("ended"))

    def open_tx() -> Any:
        return engine.transaction(organization=organization)

    return _answer(await visit(open_tx, context.app.services, id))


def _answer(found: Visit) -> Response:
    if found.state in ("page", "paid", "processing") and found.url is not None:
        return RedirectResponse(found.url, status_code=303, headers={"Cache-Control": "no-store"})
    status, title, text = TEXTS.get(found.state, TEXTS["ended"])
    back = f'<p><a href="{_escaped(found.url)}">Back</a></p>' if found.url else ""
    return HTMLResponse(PAGE.format(title=title, text=text, back=back), status_code=status)


def _escaped(url: str) -> str:
    from html import escape

    return escape(url, quote=True)
