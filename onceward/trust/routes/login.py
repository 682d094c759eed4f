"""Log in with a one-time link, and log out. Opening a link only shows a button, so a mail scanner cannot use it."""

from __future__ import annotations

from html import escape
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from onceward.trust.identity import Identity
from onceward.trust.session_cookie import SESSION
from onceward.trust.sessions import close_session
from onceward.web.api import database_of
from onceward.web.auth import require
from onceward.web.cookies import delete_secret_cookie, secret_cookie
from onceward.web.login import log_in_with_link

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in - Onceward</title><link rel="stylesheet" href="/dashboard/static/now/style.css"></head>
<body class="alone"><main class="card"><h1>Onceward</h1>
<form method="post" action="/login"><input type="hidden" name="token" value="{token}">
<p>This link logs you in once.</p><button class="primary" autofocus>Log in</button></form></main></body></html>
"""
NO_TOKEN = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in - Onceward</title><link rel="stylesheet" href="/dashboard/static/now/style.css"></head>
<body class="alone"><main class="card"><h1>Onceward</h1><p>You need a login link. On the machine that runs Onceward,
<code>onceward users ls</code> lists the accounts, and <code>onceward users login-link</code> with the address of one prints a
new link.</p></main></body></html>
"""
PRIVATE = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


def login_router() -> APIRouter:
    """`/login` and `/logout`."""
    router = APIRouter(include_in_schema=False)

    async def show(token: str = "") -> Response:
        page = PAGE.format(token=escape(token, quote=True)) if token else NO_TOKEN
        return HTMLResponse(page, headers=PRIVATE)

    async def log_in(request: Request, token: Annotated[str, Form()] = "") -> Response:
        reply = RedirectResponse("/", status_code=303, headers=PRIVATE)
        await log_in_with_link(request, token, reply)
        return reply

    async def log_out(request: Request, _identity: Annotated[Identity, Depends(require("user"))]) -> Response:
        async with database_of(request).acquire() as conn:
            await close_session(conn, secret_cookie(request, SESSION) or "")
        reply = RedirectResponse("/login", status_code=303, headers=PRIVATE)
        delete_secret_cookie(request, reply, SESSION)
        return reply

    router.add_api_route("/login", show, methods=["GET"])
    router.add_api_route("/login", log_in, methods=["POST"])
    router.add_api_route("/logout", log_out, methods=["POST"])
    return router
