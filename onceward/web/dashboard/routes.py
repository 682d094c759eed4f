"""The routes of the dashboard: pages, actions, static files, and the choice of organization. Errors are pages too."""

from __future__ import annotations

import base64
from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from asyncpg import QueryCanceledError
from fastapi import APIRouter, Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from onceward.db import Unavailable
from onceward.db.errors import TooManyRequests
from onceward.trust.errors import (
    ConfirmationRequired,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    SecondFactorRequired,
    TooManyFailures,
    TrustError,
)
from onceward.trust.identity import Identity, Scope, transaction_for
from onceward.trust.session_cookie import SESSION
from onceward.trust.settings import TrustSettings
from onceward.web import metrics
from onceward.web.api import part_of
from onceward.web.auth import ORGANIZATION_COOKIE, authenticator_of
from onceward.web.cookies import delete_secret_cookie, is_secure
from onceward.web.dashboard import frame
from onceward.web.dashboard.action import Action, ActionRefused, local_path
from onceward.web.dashboard.frame import language_of
from onceward.web.dashboard.page import Missing, Page
from onceward.web.dashboard.site import TYPES, Site
from onceward.web.exposure import ANYBODY, exposed
from onceward.web.problems import too_slow

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
MESSAGE_COOKIE = "onceward_message"

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

site_of = part_of(Site)
TheSite = Annotated[Site, Depends(site_of)]
"""The dashboard of this process, as a parameter of a route."""


def dashboard_router(site: Site) -> APIRouter:
    """Return the routes at `/` and below `/dashboard`."""

    router = APIRouter(route_class=PageRoute, include_in_schema=False)
    router.add_api_route("/dashboard/static/{version}/{name}", _static(site), methods=["GET"])
    router.add_api_route("/dashboard", _home, methods=["GET"])
    router.add_api_route("/dashboard/organizations", _organizations(site), methods=["GET"])
    router.add_api_route("/dashboard/organizations", _choose(site), methods=["POST"])
    router.add_api_route("/dashboard/theme", _theme, methods=["POST"])
    router.add_api_route("/dashboard/language", _language(site), methods=["POST"])
    for extra in site.contributed.extras:
        router.add_api_route(extra.path, extra.make(site), methods=["GET"])
    # Routes are matched in this order, so paths without parameters come first.
    for page in sorted(site.contributed.pages, key=lambda page: "{" in page.path):
        site.pages[page.name] = page
        router.add_api_route(page.path, _page(site, page), methods=["GET"])
    for action in sorted(site.contributed.actions, key=lambda action: "{slug}" in action.path):
        router.add_api_route(action.path, _action(site, action), methods=["POST"])
    return router


class PageRoute(APIRoute):
    """A route whose errors are pages, with the security headers."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            try:
                reply = await handle(request)
            except Exception as error:
                reply = await _error_page(await site_of(request), request, error)
            for name, value in HEADERS.items():
                reply.headers.setdefault(name, value)
            return _in_language(await site_of(request), request, reply)

        return guarded


def _in_language(site: Site, request: Request, reply: Response) -> Response:
    """Return a page in the language of the viewer."""
    language = language_of(site, request)
    if language == "en" or not isinstance(reply, HTMLResponse):
        return reply
    reply.body = site.languages.page(bytes(reply.body).decode(), language).encode()
    reply.headers["Content-Length"] = str(len(reply.body))
    reply.headers["Vary"] = "Accept-Language, Cookie"
    return reply


def icon_router(site: Site) -> APIRouter:
    """Return the route of the icon that browsers request for every site. The routers of the app come before it."""

    @exposed(credential=ANYBODY)
    async def icon(_request: Request) -> Response:
        headers = {"Cache-Control": "public, max-age=86400", "X-Content-Type-Options": "nosniff"}
        return Response(site.files["icon.svg"], media_type=TYPES[".svg"], headers=headers)

    router = APIRouter(include_in_schema=False)
    router.add_api_route("/favicon.ico", icon, methods=["GET", "HEAD"])
    return router


async def identify(
    request: Request, scope: Scope, *, instance: bool = False, allow_pending: bool = False, roles: tuple[str, ...] = ()
) -> Identity:
    """Return the viewer, who has at least this scope or one of these roles.

    For a change by a session, the CSRF token has been checked.
    """
    identity = await authenticator_of(request).identify(request, allow_pending=allow_pending)
    identity.require(scope, roles=roles)
    if scope != "user" and identity.organization is None and not identity.may("admin"):
        raise NotAllowed("choose the organization to act for")
    if instance and identity.organization is not None:
        raise NotAllowed("this page belongs to no organization: choose all organizations to see it")
    return identity


def credential_text(scope: Scope, *, instance: bool = False, recent: bool = False, roles: tuple[str, ...] = ()) -> str:
    """Return what `identify` asks for, as the table of routes in docs/security.md shows it."""
    text = "session" if scope == "user" else f"session or key: {scope}"
    text += "".join(f", or {role.replace('.', ' ')}" for role in roles)
    text += " of the instance" if instance and scope != "admin" else ""
    return f"{text}; proven again recently" if recent else text


def _page(site: Site, page: Page) -> Handler:
    @exposed(credential=credential_text(page.scope, instance=page.instance, roles=page.roles))
    async def show(request: Request) -> Response:
        if page.path == "/" and (first := await _own_desk(site, request)) is not None:
            return RedirectResponse(first, status_code=303)
        identity = await identify(request, page.scope, instance=page.instance, roles=page.roles)
        params = {**request.query_params, **{name: str(value) for name, value in request.path_params.items()}}
        params.pop("organization", None)
        async with transaction_for(site.database, identity) as tx:
            view = site.view(tx, identity.organization, params, variant=page.variant(identity))
            context = await page.load(view)
            around = await frame.load(site, identity, request, tx)
        if "to" in context:
            return RedirectResponse(context["to"], status_code=303)
        reply = HTMLResponse(
            site.whole(
                page, identity, around, params=view.params, part=f"parts/{page.part or page.name}.html", **context
            )
        )
        if MESSAGE_COOKIE in request.cookies:
            reply.delete_cookie(MESSAGE_COOKIE, path="/")
        return reply

    return show


async def _own_desk(site: Site, request: Request) -> str | None:
    """Return the desk of a member who may see nothing but what the roles in desks allow."""
    identity = await authenticator_of(request).identify(request)
    if identity.may("viewer") or not identity.roles:
        return None
    return next((section.path for section in site.contributed.sections if identity.may("viewer", *section.roles)), None)


def _action(site: Site, action: Action) -> Handler:
    @exposed(
        *action.causes,
        credential=credential_text(action.scope, instance=action.instance, recent=action.recent, roles=action.roles),
    )
    async def act(request: Request) -> Response:
        identity = await identify(
            request, action.scope, instance=action.instance, allow_pending=action.allow_pending, roles=action.roles
        )
        if action.recent:
            identity.require_recent(site.settings.of(TrustSettings).reauthentication_minutes)
        form = await _form(request)
        form.update({name: str(value) for name, value in request.path_params.items()})
        done = await action.run(site, identity, form)
        if done.page is not None:
            async with transaction_for(site.database, identity) as tx:
                around = await frame.load(site, identity, request, tx)
            return HTMLResponse(site.whole(None, identity, around, params={}, template=done.page, **done.context))
        reply = RedirectResponse(done.to, status_code=303)
        if done.message:
            secure = site.settings.url.startswith("https://")
            reply.set_cookie(
                MESSAGE_COOKIE, quote(done.message[:1000]), max_age=60, httponly=True, samesite="strict", secure=secure
            )
        return reply

    return act


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form. A file becomes its content in base64, with its name and type beside it."""
    fields: dict[str, str] = {}
    given = (await request.form()).multi_items()
    for name, value in sorted(
        given, key=lambda each: not isinstance(each[1], str)
    ):  # a new file replaces an earlier one
        if isinstance(value, str):
            fields[name] = value
        elif value.size:
            fields[name] = base64.b64encode(await value.read()).decode()
            fields |= {f"{name}.name": value.filename or "file", f"{name}.type": value.content_type or ""}
    return fields


def _static(site: Site) -> Handler:
    @exposed(credential=ANYBODY)
    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        content = site.files.get(name)
        kind = TYPES.get("." + name.rpartition(".")[2])
        if content is None or kind is None:
            raise Missing(f"file {name} does not exist")
        current = request.path_params["version"] == site.version
        caching = "public, max-age=31536000, immutable" if current else "no-store"
        return Response(content, media_type=kind, headers={"Cache-Control": caching})

    return file


@exposed(credential=ANYBODY)
async def _home(_request: Request) -> Response:
    return RedirectResponse("/", status_code=303)


def _organizations(site: Site) -> Handler:
    @exposed(credential="session")
    async def show(request: Request) -> Response:
        identity = await authenticator_of(request).identify(_without_choice(request))
        around = await frame.load(site, identity, request, None)
        return HTMLResponse(
            site.whole(
                None,
                identity,
                around,
                params={},
                template="organizations.html",
                title="Organizations",
                back=request.query_params.get("back", "")[:2000],
            )
        )

    return show


def _without_choice(request: Request) -> Request:
    """Ignore the chosen organization, because the user may no longer have access to it."""
    request.cookies.pop(ORGANIZATION_COOKIE, None)
    return request


def _choose(site: Site) -> Handler:
    @exposed("nothing", credential="session")
    async def choose(request: Request) -> Response:
        await authenticator_of(request).identify(_without_choice(request))
        form = await request.form()
        chosen = str(form.get("organization", ""))[:100]
        reply = RedirectResponse(_after_choosing(site, str(form.get("back", "")), chosen), status_code=303)
        if chosen:
            secure = is_secure(request)
            reply.set_cookie(
                ORGANIZATION_COOKIE, quote(chosen), max_age=31536000, httponly=True, samesite="lax", secure=secure
            )
        else:
            reply.delete_cookie(ORGANIZATION_COOKIE, path="/")
        return reply

    return choose


def _after_choosing(site: Site, back: str, chosen: str) -> str:
    """Return where to go: the same section if the organization has it. A single object may belong to another one."""
    for section in site.contributed.sections:
        if section.path == back and not (section.instance and chosen):
            return section.path
    for extra in site.contributed.extras:
        if extra.path == back.partition("?")[0] and "{" not in extra.path:
            return back
    return "/"


@exposed("nothing", credential="session")
async def _theme(request: Request) -> Response:
    """Set the theme: dark, light, or the system's. Any user may, because it changes only a cookie."""
    await authenticator_of(request).identify(request)
    chosen = (await request.form()).get("theme", "")
    reply = Response(status_code=204)
    if chosen in ("dark", "light"):
        reply.set_cookie(frame.THEME_COOKIE, str(chosen), max_age=31536000, samesite="lax", path="/")
    else:
        reply.delete_cookie(frame.THEME_COOKIE, path="/")
    return reply


def _language(site: Site) -> Handler:
    @exposed("nothing", credential="session")
    async def choose(request: Request) -> Response:
        """Set the language of the dashboard. Any user may, because it changes only a cookie."""
        await authenticator_of(request).identify(request)
        chosen = str((await request.form()).get("language", ""))
        reply = RedirectResponse(_page_before(request), status_code=303)
        if chosen in site.languages.names:
            reply.set_cookie(frame.LANGUAGE_COOKIE, chosen, max_age=31536000, samesite="lax", path="/")
        return reply

    return choose


def _page_before(request: Request) -> str:
    """Return the page of the dashboard that contains the form of this request."""
    sent_from = urlsplit(request.headers.get("referer", ""))
    return local_path(sent_from.path) if sent_from.netloc == request.headers.get("host") else "/"


async def _error_page(site: Site, request: Request, error: Exception) -> Response:
    """Return a page that explains the error."""
    detail = str(error)
    match error:
        case SecondFactorRequired():
            return RedirectResponse("/login/second-factor" if error.enrolled else "/dashboard/account", status_code=303)
        case ConfirmationRequired():
            return RedirectResponse(f"/login/confirm?back={quote(_page_before(request))}", status_code=303)
        case NotAuthenticated():
            reply = RedirectResponse(site.start_page if request.url.path == "/" else "/login", status_code=303)
            delete_secret_cookie(request, reply, SESSION)
            return reply
        case NotAllowed():
            await authenticator_of(request).record_refusal(request, error)
            status, title = 403, "Not allowed"
        case TooManyFailures():
            status, title = 429, "Too many attempts"
        case Missing() | NotFound():
            status, title = 404, "Not found"
        case ActionRefused() | TrustError() | RequestValidationError():
            status, title = 400, "That did not work"
        case HTTPException():
            status, title = error.status_code, "That did not work"
        case TooManyRequests():
            status, title = 429, "Too many requests"
            metrics.LIMITED.inc()
        case QueryCanceledError():
            slow = too_slow()
            status, title, detail = slow.status_code, slow.title, slow.detail
        case Unavailable():
            status, title = 503, "The database is unavailable"
        case _:
            raise error
    theme = request.cookies.get(frame.THEME_COOKIE, "")
    page = site.render("error.html", status=status, title=title, detail=detail, theme=frame.theme(theme))
    return HTMLResponse(
        page, status_code=status, headers={"Retry-After": "1"} if isinstance(error, TooManyRequests) else None
    )
