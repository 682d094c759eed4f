"""Sign in with a passkey, or confirm with one who you are. `trust/pages/passkeys.py` adds passkeys."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from onceward.context import Context
from onceward.trust.errors import NotAuthenticated
from onceward.trust.passkeys import LARGEST_CREDENTIAL, Website, begin_using, use_passkey
from onceward.trust.routes.login import finish_second_factor, login_page, member_of, session_id_of, session_of
from onceward.trust.session_cookie import SESSION
from onceward.trust.sessions import close_session, confirm_session, open_session
from onceward.web.auth import ORGANIZATION_COOKIE, WRONG_CREDENTIALS, authenticator_of
from onceward.web.cookies import require_private_transport, secret_cookie
from onceward.web.dashboard import Site, local_path, page_route
from onceward.web.exposure import ANYBODY, exposed
from onceward.web.login import device_of, policy_from, set_session

REFUSED = "This passkey was not accepted. Try again, or sign in with a login link."

Text = Annotated[str, Form(max_length=LARGEST_CREDENTIAL)]


def passkeys_router(context: Context) -> APIRouter:
    """`/login/passkey`: its options, signing in, and proving who you are in an open session."""
    site = context.part(Site)
    router = APIRouter(route_class=page_route(site), include_in_schema=False)

    @exposed(credential=ANYBODY)
    async def options(request: Request) -> dict[str, Any]:
        require_private_transport(request)
        return begin_using(context.box, website_of(site, request))

    @exposed("nothing", credential="passkey", limit=WRONG_CREDENTIALS)
    async def sign_in(request: Request, credential: Text = "", ceremony: Text = "") -> Response:
        authenticator = authenticator_of(request)
        authenticator.refuse_other_sites(request)
        require_private_transport(request)
        try:
            async with site.database.transaction(role="engine") as tx:
                user_id = await use_passkey(tx, context.box, sealed=ceremony, credential=credential)
                session = await open_session(
                    tx,
                    user_id,
                    method="passkey",
                    has_second_factor=True,
                    policy=policy_from(site.settings),
                    device=device_of(request),
                )
                await close_session(tx, secret_cookie(request, SESSION) or "")
        except NotAuthenticated as error:
            await authenticator.count_failure(request, str(error))
            return login_page(site, request, error=REFUSED, status_code=401)
        reply = RedirectResponse("/", status_code=303)
        set_session(request, reply, session.token)
        reply.delete_cookie(ORGANIZATION_COOKIE)
        return reply

    @exposed("nothing", credential="session and passkey", limit=WRONG_CREDENTIALS)
    async def prove(
        request: Request, credential: Text = "", ceremony: Text = "", back: Annotated[str, Form()] = "/"
    ) -> Response:
        identity = await session_of(request)
        assert identity.session is not None
        reply = RedirectResponse(local_path(back), status_code=303)
        try:
            async with site.database.transaction(role="engine") as tx:
                user_id = await use_passkey(tx, context.box, sealed=ceremony, credential=credential)
                if user_id != member_of(identity):
                    raise NotAuthenticated("the passkey belongs to somebody else")
                if not identity.session.is_pending:
                    await confirm_session(tx, session_id_of(identity), second_factor=True)
        except NotAuthenticated as error:
            await authenticator_of(request).count_failure(request, str(error))
            return login_page(site, request, error=REFUSED, status_code=401)
        if identity.session.is_pending:
            await finish_second_factor(site, request, identity, reply)
        return reply

    router.add_api_route("/login/passkey/options", options, methods=["GET"])
    router.add_api_route("/login/passkey", sign_in, methods=["POST"])
    router.add_api_route("/login/passkey/proof", prove, methods=["POST"])
    return router


def website_of(site: Site, request: Request) -> Website:
    """Return the site as the browser names it: the public URL, or else the host of the request."""
    base = site.settings.public_url or f"{request.url.scheme}://{request.headers.get('host', '')}"
    parts = urlsplit(base)
    return Website(f"{parts.scheme}://{parts.netloc}", parts.hostname or "")
