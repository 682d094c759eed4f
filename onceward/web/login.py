"""Open a session for somebody who has signed in, and set its cookie."""

from __future__ import annotations

import re
from uuid import UUID

from fastapi import Request
from starlette.responses import Response

from onceward.db import Transaction
from onceward.settings import Settings
from onceward.trust.errors import NotAuthenticated
from onceward.trust.session_cookie import SESSION
from onceward.trust.sessions import Device, Method, Session, SessionPolicy, close_session, open_session, redeem_link
from onceward.trust.settings import TrustSettings
from onceward.web.api import database_of, settings_of
from onceward.web.auth import ORGANIZATION_COOKIE, authenticator_of, client_of
from onceward.web.cookies import require_private_transport, secret_cookie, set_secret_cookie

BROWSERS = ("Edg", "OPR", "Firefox", "Chrome", "Safari")
"""In this order: Edge and Opera also name Chrome, and Chrome also names Safari."""
NAMES = {"Edg": "Edge", "OPR": "Opera"}
SYSTEMS = ("iPhone", "iPad", "Android", "Windows", "Macintosh", "Linux")


async def log_in_with_link(request: Request, token: str, reply: Response) -> None:
    """Open a session with the token of a login link, and set its cookie in the reply. Raises `NotAuthenticated`.

    A request that another site has sent is refused, and one over plain http, before the link is used.
    """
    authenticator = authenticator_of(request)
    authenticator.refuse_other_sites(request)
    require_private_transport(request)
    try:
        async with database_of(request).transaction(role="engine") as tx:
            session = await redeem_link(tx, token, policy=policy_from(settings_of(request)), device=device_of(request))
            await forget_session(request, tx)
    except NotAuthenticated as error:
        await authenticator.count_failure(request, str(error))
        raise
    start_session(request, reply, session)


async def open_session_of(
    request: Request, tx: Transaction, user_id: UUID, *, method: Method, has_second_factor: bool
) -> Session:
    """Open a session for somebody who has just proven who they are, in place of the browser's earlier one."""
    session = await open_session(
        tx,
        user_id,
        method=method,
        has_second_factor=has_second_factor,
        policy=policy_from(settings_of(request)),
        device=device_of(request),
    )
    await forget_session(request, tx)
    return session


async def forget_session(request: Request, tx: Transaction) -> None:
    """Close the session whose cookie the browser is about to replace."""
    await close_session(tx, secret_cookie(request, SESSION) or "")


def start_session(request: Request, reply: Response, session: Session) -> None:
    """Set the cookie of a new session."""
    set_session(request, reply, session.token)
    reply.delete_cookie(ORGANIZATION_COOKIE)  # another person may have chosen it in this browser


def set_session(request: Request, reply: Response, token: str) -> None:
    """Set the cookie of a session."""
    set_secret_cookie(
        request, reply, SESSION, token, max_age_s=settings_of(request).of(TrustSettings).session_hours * 3600
    )


def policy_from(settings: Settings) -> SessionPolicy:
    """Return how long sessions last and who needs a second factor."""
    own = settings.of(TrustSettings)
    return SessionPolicy(own.session_hours, own.session_idle_minutes, own.second_factor)


def device_of(request: Request) -> Device:
    """Return where the request comes from, for the list of sessions."""
    return Device(describe_browser(request.headers.get("user-agent", "")), client_of(request))


def describe_browser(agent: str) -> str:
    """Return the browser and the system that a `User-Agent` names, such as `Firefox on Windows`."""
    agent = agent[:500]
    browser = next((name for name in BROWSERS if f"{name}/" in agent), None)
    system = next((name for name in SYSTEMS if name in agent), None)
    if browser is None:
        return re.sub(r"[^A-Za-z0-9 ._/-]", "", agent)[:40] or "Unknown browser"
    name = NAMES.get(browser, browser)
    return name if system is None else f"{name} on {'macOS' if system == 'Macintosh' else system}"
