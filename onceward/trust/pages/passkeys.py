"""Add a passkey on the page of the account. The second factors of the page list and remove it."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from onceward.trust.errors import NotAuthenticated
from onceward.trust.identity import Identity
from onceward.trust.pages.account import PATH, after_adding, person_of
from onceward.trust.passkeys import add_passkey, begin_adding
from onceward.trust.routes.passkeys import website_of
from onceward.trust.sessions import confirm_session
from onceward.web.dashboard.action import Action, ActionRefused, Done
from onceward.web.dashboard.contribution import Extra, Handler
from onceward.web.dashboard.routes import identify
from onceward.web.dashboard.site import Site
from onceward.web.exposure import NOTHING, exposed


def options(site: Site) -> Handler:
    @exposed(credential="session")
    async def begin(request: Request) -> Response:
        user_id, _ = person_of(await identify(request, "user", allow_pending=True))
        async with site.database.acquire() as conn:
            return JSONResponse(await begin_adding(conn, site.context.box, website_of(site, request), user_id))

    return begin


async def _add(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    _, session_id = person_of(identity)
    try:
        async with site.database.transaction(role="engine") as tx:
            codes = await add_passkey(
                tx,
                site.context.box,
                sealed=form.get("ceremony", ""),
                credential=form.get("credential", ""),
                name=form.get("name", ""),
                actor=identity,
            )
            await confirm_session(tx, session_id, second_factor=True)
    except NotAuthenticated as error:  # the session is valid: only the form is not
        raise ActionRefused(f"{error}: open the page of your account and try again") from error
    return after_adding(codes, "The passkey is added.")


EXTRAS = (Extra(f"{PATH}/passkeys/options", options),)
ACTIONS = (Action(path=f"{PATH}/passkeys", causes=NOTHING, run=_add, scope="user", allow_pending=True, recent=True),)
