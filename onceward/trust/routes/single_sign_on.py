"""Sign in through the OpenID Connect provider, or confirm there who you are."""

from __future__ import annotations

import base64
import binascii
import secrets

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from onceward.context import Context
from onceward.trust.errors import NotAllowed, NotAuthenticated, SecretError
from onceward.trust.routes.login import login_page, member_of, sentence, session_id_of
from onceward.trust.secrets import SecretBox
from onceward.trust.sessions import confirm_session
from onceward.trust.settings import TrustSettings
from onceward.trust.single_sign_on import NoAccount, Provider, ProviderFailed, SignOn, find_person
from onceward.web.auth import authenticator_of
from onceward.web.cookies import delete_secret_cookie, require_private_transport, secret_cookie, set_secret_cookie
from onceward.web.dashboard import PageRoute, Site, identify, local_path
from onceward.web.exposure import ANYBODY, exposed
from onceward.web.login import open_session_of, start_session

PATH = "/login/single-sign-on"
COOKIE = "onceward_sign_on"
LASTS_S = 600
LOST = "This sign-on has expired or began in another browser. Start again."
PLACE = {"table": "cookie", "row": COOKIE, "column": "value"}


def single_sign_on_router(context: Context) -> APIRouter | None:
    """Return the routes below `/login/single-sign-on`, or None if no provider is configured."""
    settings, site = context.settings.of(TrustSettings), context.part(Site)
    if settings.oidc_issuer is None or settings.oidc_client_id is None:
        return None
    secret = settings.oidc_client_secret
    provider = Provider(
        settings.oidc_issuer, settings.oidc_client_id, None if secret is None else secret.get_secret_value()
    )
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @exposed("call", credential=ANYBODY)
    async def begin(request: Request, back: str = "/", confirm: bool = False) -> Response:
        require_private_transport(request)
        confirms = str(session_id_of(await identify(request, "user"))) if confirm else ""
        try:
            started, url = await provider.begin(_callback(site, request), back=local_path(back), confirms=confirms)
        except ProviderFailed as error:
            return login_page(site, request, error=sentence(error), status_code=502)
        reply = RedirectResponse(url, status_code=303)
        sealed = base64.urlsafe_b64encode(context.box.seal(started.to_json(), **PLACE)).decode()
        set_secret_cookie(request, reply, COOKIE, sealed, max_age_s=LASTS_S)
        return reply

    @exposed("call", credential="code of the identity provider")
    async def finish(request: Request, code: str = "", state: str = "", error: str = "") -> Response:
        started = _started(context.box, request)
        if started is None or not secrets.compare_digest(started.state.encode(), state.encode()):
            reply = login_page(site, request, error=LOST, status_code=400)
        elif error or not code:
            reply = login_page(site, request, error="The provider did not sign you in.", status_code=403)
        else:
            reply = await _sign_in(site, provider, request, started, code)
        delete_secret_cookie(request, reply, COOKIE)
        return reply

    router.add_api_route(PATH, begin, methods=["GET"])
    router.add_api_route(f"{PATH}/callback", finish, methods=["GET"])
    return router


async def _sign_in(site: Site, provider: Provider, request: Request, started: SignOn, code: str) -> Response:
    try:
        proven = await provider.finish(started, code=code, redirect_uri=_callback(site, request))
    except NotAuthenticated as error:
        await authenticator_of(request).count_failure(request, str(error))
        return login_page(
            site, request, error="The answer of the provider was not valid. Start again.", status_code=401
        )
    except ProviderFailed as error:
        return login_page(site, request, error=sentence(error), status_code=502)
    has_second_factor = proven.has_second_factor or site.settings.of(TrustSettings).oidc_has_second_factor
    reply = RedirectResponse(started.back, status_code=303)
    try:
        async with site.database.transaction(role="engine") as tx:
            user_id = await find_person(tx, proven)
            if started.confirms:
                identity = await identify(request, "user")
                if member_of(identity) != user_id or str(session_id_of(identity)) != started.confirms:
                    raise NotAllowed("you signed in at the provider as somebody else, or in another session")
                await confirm_session(tx, session_id_of(identity), second_factor=has_second_factor)
                return reply
            session = await open_session_of(
                request, tx, user_id, method="single_sign_on", has_second_factor=has_second_factor
            )
    except NoAccount as error:
        return login_page(site, request, error=sentence(error), status_code=403)
    start_session(request, reply, session)
    return reply


def _started(box: SecretBox, request: Request) -> SignOn | None:
    try:
        sealed = base64.urlsafe_b64decode(secret_cookie(request, COOKIE) or "")
        return SignOn.from_json(box.open(sealed, **PLACE))
    except (SecretError, binascii.Error, ValueError, TypeError):
        return None


def _callback(site: Site, request: Request) -> str:
    base = site.settings.public_url or f"{request.url.scheme}://{request.headers.get('host', '')}"
    return f"{base.rstrip('/')}{PATH}/callback"
