"""Sign in with a passkey, or confirm with one who you are. `trust/pages/passkeys.py` adds passkeys."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from onceward.trust.errors import NotAuthenticated
from onceward.trust.passkeys import LARGEST_CREDENTIAL, Website, begin_using, use_passkey
from onceward.trust.routes.login import finish_second_factor, login_page, member_of, session_id_of, session_of
from onceward.trust.sessions import confirm_session
from onceward.web.auth import WRONG_CREDENTIALS, authenticator_of
from onceward.web.cookies import require_private_transport
from onceward.web.dashboard import PageRoute, Site, TheSite, local_path
from onceward.web.exposure import ANYBODY, exposed
from onceward.web.login import open_session_of, start_session

REFUSED = "This passkey was not accepted. Try again, or sign in with a login link."

Text = Annotated[str, Form(max_length=LARGEST_CREDENTIAL)]


router = APIRouter(route_class=PageRoute, include_in_schema=False)
"""`/login/passkey`: its options, signing in, and proving who you are in an open session."""


@router.get("/login/passkey/options")
@exposed(credential=ANYBODY)
async def options(request: Request, site: TheSite) -> dict[str, Any]:
    require_private_transport(request)
    return begin_using(site.context.box, website_of(site, request))


@router.post("/login/passkey")
@exposed("nothing", credential="passkey", limit=WRONG_CREDENTIALS)
async def sign_in(request: Request, site: TheSite, credential: Text = "", ceremony: Text = "") -> Response:
    authenticator = authenticator_of(request)
    authenticator.refuse_other_sites(request)
    require_private_transport(request)
    try:
        async with site.database.transaction(role="engine") as tx:
            user_id = await use_passkey(tx, site.context.box, sealed=ceremony, credential=credential)
            session = await open_session_of(request, tx, user_id, method="passkey", has_second_factor=True)
    except NotAuthenticated as error:
        await authenticator.count_failure(request, str(error))
        return login_page(site, request, error=REFUSED, status_code=401)
    reply = RedirectResponse("/", status_code=303)
    start_session(request, reply, session)
    return reply


@router.post("/login/passkey/proof")
@exposed("nothing", credential="session and passkey", limit=WRONG_CREDENTIALS)
async def prove(
    request: Request, site: TheSite, credential: Text = "", ceremony: Text = "", back: Annotated[str, Form()] = "/"
) -> Response:
    identity = await session_of(request)
    assert identity.session is not None
    reply = RedirectResponse(local_path(back), status_code=303)
    try:
        async with site.database.transaction(role="engine") as tx:
            user_id = await use_passkey(tx, site.context.box, sealed=ceremony, credential=credential)
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


def website_of(site: Site, request: Request) -> Website:
    """Return the site as the browser names it: the public URL, or else the host of the request."""
    base = site.settings.public_url or f"{request.url.scheme}://{request.headers.get('host', '')}"
    parts = urlsplit(base)
    return Website(f"{parts.scheme}://{parts.netloc}", parts.hostname or "")
