"""The customer portal: customers of an organization see their endpoints, deliveries and responses, and can resend.

A link with a token opens the portal and sets a cookie. Every form carries a CSRF token, so that no
other site can act in the customer's name.
"""

from __future__ import annotations

import hmac
from html import escape
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Form, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from onceward.look.organizations import brand_of
from onceward.look.public import plain_page
from onceward.outbox import Outbox, OutboxError, delivery_history, portal, resends
from onceward.outbox.routes.callers import TheOutbox
from onceward.trust import NotAllowed, NotAuthenticated
from onceward.web.api import database_of, engine_of
from onceward.web.auth import WRONG_CREDENTIALS, authenticator_of
from onceward.web.cookies import secret_cookie, set_secret_cookie
from onceward.web.exposure import exposed, grants
from onceward.web.fields import Number

COOKIE = "onceward_portal"
PORTAL_TOKEN = "portal token"
POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors {}"


def _headers(visitor: portal.Visitor | None) -> dict[str, str]:
    """Return the headers of a page. Only the sites that the link names may show it in a frame."""
    sites = () if visitor is None else visitor.embed_at or ()
    headers = {
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "Content-Security-Policy": POLICY.format(" ".join(sites) or "'none'"),
    }
    return headers if sites else {**headers, "X-Frame-Options": "DENY"}


@grants(PORTAL_TOKEN)
async def _visiting(request: Request) -> portal.Visitor:
    return await _recognise(request, secret_cookie(request, COOKIE) or "")


async def _recognise(request: Request, token: str) -> portal.Visitor:
    """Return the visitor with this token. Wrong tokens count as failed logins: too many are answered with 429."""
    try:
        return await portal.visitor(database_of(request), token)
    except NotAuthenticated as error:
        if token:
            await authenticator_of(request).count_failure(request, str(error))
        raise


Visiting = Annotated[portal.Visitor, Depends(_visiting)]


router = APIRouter(prefix="/portal", include_in_schema=False)
"""`/portal`: entry with the list of endpoints, one endpoint, one delivery."""


@router.get("")
@exposed(credential=PORTAL_TOKEN, limit=WRONG_CREDENTIALS)
async def enter(request: Request, outbox: TheOutbox, token: str = "") -> Response:
    try:
        if token:
            visitor = await _recognise(request, token)
            reply = RedirectResponse("/portal", status_code=303, headers=_headers(visitor))
            set_secret_cookie(request, reply, COOKIE, token, embedded=bool(visitor.embed_at))
            return reply
        visitor = await _visiting(request)
    except NotAuthenticated:
        gone = "<p>This link is no longer valid. Ask the sender for a new one.</p>"
        return await _page(request, None, "Webhooks", gone, status=401)
    return await _list(request, outbox, visitor)


@router.get("/endpoints/{endpoint_id}")
async def show_endpoint(request: Request, outbox: TheOutbox, visitor: Visiting, endpoint_id: UUID) -> Response:
    if not visitor.sees(endpoint_id):
        raise NotAllowed("this link gives no access to this endpoint")
    endpoint = await outbox.endpoints.get(visitor.organization_id, endpoint_id)
    found = await delivery_history.deliveries(
        database_of(request), visitor.organization_id, endpoint_ids=[endpoint_id], limit=100
    )
    body = f"<p>{escape(endpoint.url)} {_state(endpoint.active, endpoint.disabled_reason)}</p>"
    if visitor.may_act and endpoint.active:
        body += _button(visitor, f"/portal/endpoints/{endpoint_id}/test", "Send a test event")
    body += _table(
        ("delivery", "event", "status", "attempts", "response", "created"),
        [
            (
                f'<a href="/portal/deliveries/{row.id}">{row.id}</a>',
                escape(row.type),
                _status(row.status),
                row.attempts,
                row.response_status or escape(row.error or ""),
                _when(row.created_at),
            )
            for row in found.rows
        ],
    )
    return await _page(request, visitor, "Endpoint", body)


@router.get("/deliveries/{id}")
async def delivery(request: Request, visitor: Visiting, id: Number) -> Response:
    row, sent, attempts = await delivery_history.delivery(database_of(request), visitor.organization_id, id)
    if not visitor.sees(row.endpoint_id):
        raise NotAllowed("this link gives no access to this endpoint")
    body = f"<p>{escape(row.type)} {escape(row.message_id)} {_status(row.status)}</p>"
    if visitor.may_act:
        body += _button(visitor, f"/portal/deliveries/{id}/resend", "Send again")
    body += _table(
        ("attempt", "finished", "status", "ms", "response"),
        [(each.number, _when(each.finished_at), each.status or "", each.ms or "", _answer(each)) for each in attempts],
    )
    body += f"<h2>Body</h2><pre>{escape(sent or 'The body has been deleted.')}</pre>"
    return await _page(request, visitor, f"Delivery {id}", body)


@router.post("/deliveries/{id}/resend")
@exposed("call")
async def resend(request: Request, visitor: Visiting, id: Number, csrf: Annotated[str, Form()] = "") -> Response:
    _may_act(visitor, csrf)
    row, _, _ = await delivery_history.delivery(database_of(request), visitor.organization_id, id)
    if not visitor.sees(row.endpoint_id):
        raise NotAllowed("this link gives no access to this endpoint")
    try:
        await resends.resend_one(database_of(request), visitor.organization_id, id, actor=visitor.actor)
    except OutboxError as error:
        return await _page(request, visitor, "Not sent again", f"<p>{escape(str(error))}</p>", status=409)
    for queue in ("deliveries", "deliveries-retry"):
        engine_of(request).waker.wake(queue)
    return RedirectResponse(f"/portal/deliveries/{id}", status_code=303, headers=_headers(visitor))


@router.post("/endpoints/{endpoint_id}/test")
@exposed("call")
async def send_test(
    outbox: TheOutbox, visitor: Visiting, endpoint_id: UUID, csrf: Annotated[str, Form()] = ""
) -> Response:
    _may_act(visitor, csrf)
    if not visitor.sees(endpoint_id):
        raise NotAllowed("this link gives no access to this endpoint")
    await outbox.send_test(visitor.organization_id, endpoint_id, actor=visitor.actor)
    return RedirectResponse(f"/portal/endpoints/{endpoint_id}", status_code=303, headers=_headers(visitor))


async def _list(request: Request, outbox: Outbox, visitor: portal.Visitor) -> Response:
    endpoints = [
        each for each in await outbox.endpoints.list(visitor.organization_id) if visitor.sees(each.endpoint_id)
    ]
    rows = [
        (
            f'<a href="/portal/endpoints/{each.endpoint_id}">{escape(each.url)}</a>',
            escape(", ".join(each.events)),
            _state(each.active, each.disabled_reason),
        )
        for each in endpoints
    ]
    body = _table(("endpoint", "events", "state"), rows) if rows else "<p>No endpoints yet.</p>"
    return await _page(request, visitor, "Webhooks", body)


def _may_act(visitor: portal.Visitor, csrf: str) -> None:
    if not visitor.may_act:
        raise NotAllowed("this link is read-only")
    if not hmac.compare_digest(csrf.encode(), visitor.csrf.encode()):
        raise NotAllowed("the form has expired or comes from another page; open the portal again")


async def _page(
    request: Request, visitor: portal.Visitor | None, title: str, body: str, *, status: int = 200
) -> Response:
    brand = None
    if visitor is not None and visitor.organization_id is not None:
        async with database_of(request).transaction(role="engine") as tx:
            brand = await brand_of(tx, visitor.organization_id, "/portal")
    text = plain_page(title, body, name="Webhooks", home="/portal", width="wide", brand=brand)
    return HTMLResponse(text, status_code=status, headers=_headers(visitor))


def _table(heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in heads)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _button(visitor: portal.Visitor, action: str, text: str) -> str:
    hidden = f'<input type="hidden" name="csrf" value="{visitor.csrf}">'
    return f'<form method="post" action="{action}">{hidden}<button>{text}</button></form>'


def _status(status: str) -> str:
    tone = {"success": "good", "failed": "bad", "dead_letter": "bad"}.get(status, "")
    return f'<span class="{tone}">{escape(status.replace("_", " "))}</span>'


def _state(active: bool, reason: str | None) -> str:
    return "active" if active else f'<span class="bad">disabled ({escape(reason or "")})</span>'


def _when(at: Any) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S") if at is not None else ""


def _answer(attempt: delivery_history.AttemptRow) -> str:
    return f"<pre>{escape(attempt.response)}</pre>" if attempt.response else escape(attempt.error or "")
