"""Sign in with a one-time link, use the second factor, confirm who you are, and log out.

Opening a link only shows a button, so a mail scanner cannot use it.
"""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Form, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from onceward.trust.errors import NotAllowed, NotAuthenticated, TooManyFailures, TrustError
from onceward.trust.identity import Identity
from onceward.trust.second_factor import WRONG_CODES, WrongCode, check_code, list_factors
from onceward.trust.session_cookie import SESSION
from onceward.trust.sessions import close_session, confirm_session, replace_token
from onceward.trust.settings import TrustSettings
from onceward.web.api import database_of
from onceward.web.auth import WRONG_CREDENTIALS
from onceward.web.cookies import delete_secret_cookie, secret_cookie
from onceward.web.dashboard import PageRoute, Site, TheSite, identify, local_path
from onceward.web.dashboard.frame import THEME_COOKIE, theme
from onceward.web.exposure import ANYBODY, exposed
from onceward.web.login import log_in_with_link, set_session

USED_LINK = "This link is unknown, has been used or has expired. Ask for a new one."


router = APIRouter(route_class=PageRoute, include_in_schema=False)
"""`/login`, `/login/second-factor`, `/login/confirm` and `/logout`."""


@router.get("/login")
@exposed(credential=ANYBODY)
async def show(request: Request, site: TheSite, token: str = "") -> Response:
    return login_page(site, request, token=token)


@router.post("/login")
@exposed("nothing", credential="sign-in link", limit=WRONG_CREDENTIALS)
async def log_in(request: Request, site: TheSite, token: Annotated[str, Form()] = "") -> Response:
    reply = RedirectResponse("/", status_code=303)
    try:
        await log_in_with_link(request, token, reply)
    except NotAuthenticated:
        return login_page(site, request, error=USED_LINK, status_code=401)
    return reply


@router.post("/logout")
@exposed("nothing", credential="session")
async def log_out(request: Request) -> Response:
    await identify(request, "user", allow_pending=True)
    async with database_of(request).transaction(role="engine") as tx:
        await close_session(tx, secret_cookie(request, SESSION) or "")
    reply = RedirectResponse("/login", status_code=303)
    delete_secret_cookie(request, reply, SESSION)
    return reply


@router.get("/login/second-factor")
@exposed(credential="session")
async def show_second_factor(request: Request, site: TheSite) -> Response:
    identity = await session_of(request)
    if identity.session is None or not identity.session.is_pending:
        return RedirectResponse("/", status_code=303)
    return await proof_page(site, request, identity, "second_factor.html")


@router.post("/login/second-factor")
@exposed("nothing", credential="session", limit=WRONG_CODES)
async def check_second_factor(
    request: Request, site: TheSite, code: Annotated[str, Form(max_length=100)] = ""
) -> Response:
    identity = await session_of(request)
    try:
        await check_code(site.database, site.context.box, member_of(identity), code)
    except (WrongCode, TooManyFailures) as error:
        return await proof_page(site, request, identity, "second_factor.html", error=error)
    reply = RedirectResponse("/", status_code=303)
    await finish_second_factor(site, request, identity, reply)
    return reply


@router.get("/login/confirm")
@exposed(credential="session")
async def show_confirmation(request: Request, site: TheSite, back: str = "/") -> Response:
    identity = await identify(request, "user")
    session_id_of(identity)
    return await proof_page(site, request, identity, "confirm.html", back=local_path(back))


@router.post("/login/confirm")
@exposed("nothing", credential="session", limit=WRONG_CODES)
async def confirm(
    request: Request, site: TheSite, code: Annotated[str, Form(max_length=100)] = "", back: Annotated[str, Form()] = "/"
) -> Response:
    identity = await identify(request, "user")
    try:
        await check_code(site.database, site.context.box, member_of(identity), code)
    except (WrongCode, TooManyFailures) as error:
        return await proof_page(site, request, identity, "confirm.html", error=error, back=local_path(back))
    async with site.database.transaction(role="engine") as tx:
        await confirm_session(tx, session_id_of(identity), second_factor=True)
    return RedirectResponse(local_path(back), status_code=303)


async def session_of(request: Request) -> Identity:
    """Return the identity of a session, which may still lack its second factor."""
    identity = await identify(request, "user", allow_pending=True)
    session_id_of(identity)
    return identity


def session_id_of(identity: Identity) -> UUID:
    """Return the id of the caller's session. A key or token has none."""
    if identity.session is None:
        raise NotAllowed("this page is for people who are signed in to the dashboard, not for keys and tokens")
    return identity.session.session_id


def member_of(identity: Identity) -> UUID:
    """Return the id of the person whose session this is. A key or token has none."""
    session_id_of(identity)
    assert identity.member is not None
    return identity.member


async def finish_second_factor(site: Site, request: Request, identity: Identity, reply: Response) -> None:
    """Complete the sign-in: the session gets a new token."""
    async with site.database.transaction(role="engine") as tx:
        token = await replace_token(tx, session_id_of(identity))
    set_session(request, reply, token)


def login_page(site: Site, request: Request, *, token: str = "", error: str = "", status_code: int = 200) -> Response:
    """Return the page for signing in: with the link that was opened, or with what else is possible."""
    page = _render(site, request, "login.html", token=token, error=error)
    return HTMLResponse(page, status_code=status_code)


async def proof_page(
    site: Site,
    request: Request,
    identity: Identity,
    template: str,
    *,
    error: TrustError | None = None,
    back: str = "/",
) -> Response:
    """Return a page that asks for a proof of identity, with the proofs that this person can give."""
    assert identity.session is not None
    user_id = member_of(identity)
    async with site.database.acquire() as conn:
        kinds = {factor.kind for factor in await list_factors(conn, user_id)}
        email = await conn.fetchval("select email from onceward.users where user_id = $1", user_id)
    page = _render(
        site,
        request,
        template,
        csrf=identity.csrf,
        kinds=kinds,
        email=email,
        back=back,
        error=sentence(error) if error else "",
        method=identity.session.method,
    )
    status = 429 if isinstance(error, TooManyFailures) else 403 if error else 200
    return HTMLResponse(page, status_code=status)


def sentence(error: TrustError) -> str:
    """Return the text of an error as a page shows it."""
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


def _render(site: Site, request: Request, template: str, **context: Any) -> str:
    colours = theme(request.cookies.get(THEME_COOKIE, ""))
    settings = site.settings.of(TrustSettings)
    sign_on = settings.oidc_name if settings.oidc_issuer else ""
    return site.render(template, theme=colours, sign_on=sign_on, **context)
