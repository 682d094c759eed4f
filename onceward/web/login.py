"""Redeem a login link and set the cookie of the session."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from onceward.trust.errors import NotAuthenticated
from onceward.trust.session_cookie import SESSION
from onceward.trust.sessions import redeem_link
from onceward.web.api import database_of, settings_of
from onceward.web.auth import ORGANIZATION_COOKIE, authenticator_of
from onceward.web.cookies import require_private_transport, set_secret_cookie


async def log_in_with_link(request: Request, token: str, reply: Response) -> None:
    """Open a session with the token of a login link, and set its cookie in the reply. Raises `NotAuthenticated`.

    A request that another site has sent is refused, and one over plain http, before the link is used.
    """
    database, settings = database_of(request), settings_of(request)
    authenticator = authenticator_of(request)
    authenticator.refuse_other_sites(request)
    require_private_transport(request)
    try:
        async with database.transaction(role="engine") as tx:
            session = await redeem_link(tx, token, session_hours=settings.session_hours)
    except NotAuthenticated as error:
        await authenticator.count_failure(request, str(error))
        raise
    set_secret_cookie(request, reply, SESSION, session.token, max_age_s=settings.session_hours * 3600)
    reply.delete_cookie(ORGANIZATION_COOKIE)  # another person may have chosen it in this browser
