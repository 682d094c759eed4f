"""The page of one's own account: open sessions, authenticator apps and recovery codes. Passkeys: `passkeys.py`."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from onceward.lazy import lazy_module
from onceward.trust.errors import NotAllowed, SecondFactorRequired
from onceward.trust.identity import Identity
from onceward.trust.own_sessions import end_session, end_sessions, list_sessions
from onceward.trust.second_factor import (
    NewTotp,
    WrongCode,
    confirm_totp,
    count_recovery_codes,
    find_unconfirmed,
    list_factors,
    remove_factor,
    replace_recovery_codes,
    start_totp,
)
from onceward.trust.sessions import confirm_session
from onceward.web.dashboard import frame
from onceward.web.dashboard.action import Action, ActionRefused, Done
from onceward.web.dashboard.contribution import Extra, Handler
from onceward.web.dashboard.routes import MESSAGE_COOKIE, identify
from onceward.web.dashboard.site import Site
from onceward.web.exposure import NOTHING, exposed

if TYPE_CHECKING:
    import segno
else:
    segno = lazy_module("segno")

PATH = "/dashboard/account"


def show(site: Site) -> Handler:
    @exposed(credential="session")
    async def account(request: Request) -> Response:
        identity = await identify(request, "user", allow_pending=True)
        user_id, _ = person_of(identity)
        async with site.database.acquire() as conn:
            context: dict[str, Any] = {
                "sessions": await list_sessions(conn, user_id),
                "factors": await list_factors(conn, user_id),
                "recovery_codes": await count_recovery_codes(conn, user_id),
            }
        around = await frame.load(site, identity, request, None)
        reply = HTMLResponse(
            site.whole(None, identity, around, params={}, template="account.html", title="Account", **context)
        )
        if MESSAGE_COOKIE in request.cookies:
            reply.delete_cookie(MESSAGE_COOKIE, path="/")
        return reply

    return account


def person_of(identity: Identity) -> tuple[UUID, UUID]:
    """Return the ids of the person and of their session.

    Raises `NotAllowed` for a key or a token, and `SecondFactorRequired` for a session whose person has a second factor
    and has not used it: it must not show or change anything.
    """
    if identity.session is None or identity.member is None:
        raise NotAllowed("this page is for people who are signed in to the dashboard, not for keys and tokens")
    if identity.session.is_pending and identity.session.is_enrolled:
        raise SecondFactorRequired(enrolled=True)
    return identity.member, identity.session.session_id


async def _end(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    user_id, _ = person_of(identity)
    async with site.database.transaction(role="engine") as tx:
        await end_session(tx, user_id, uuid_of(form, "session"), actor=identity)
    return Done(PATH, "The session has ended.")


async def _end_all(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    user_id, session_id = person_of(identity)
    keep = None if form.get("also") == "this" else session_id
    async with site.database.transaction(role="engine") as tx:
        ended = await end_sessions(tx, user_id, keep=keep, actor=identity)
    if keep is None:
        return Done("/login")
    return Done(PATH, f"{ended} other {'session has' if ended == 1 else 'sessions have'} ended.")


async def _start_totp(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    user_id, _ = person_of(identity)
    async with site.database.transaction(role="engine") as tx:
        new = await start_totp(tx, site.context.box, user_id, name=form.get("name", ""), issuer=issuer(site))
    return _setup_page(new)


async def _confirm_totp(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    user_id, session_id = person_of(identity)
    try:
        async with site.database.transaction(role="engine") as tx:
            codes = await confirm_totp(tx, site.context.box, user_id, form.get("code", ""), actor=identity)
            await confirm_session(tx, session_id, second_factor=True)
    except WrongCode as error:
        async with site.database.transaction(role="engine") as tx:
            new = await find_unconfirmed(tx, site.context.box, user_id, issuer=issuer(site))
        if new is None:
            raise
        return _setup_page(new, error=str(error))
    return after_adding(codes, "The authenticator app is added.")


async def _remove(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    user_id, _ = person_of(identity)
    async with site.database.transaction(role="engine") as tx:
        await remove_factor(tx, user_id, uuid_of(form, "factor"), actor=identity)
    return Done(PATH, "The second factor is removed.")


async def _recovery(site: Site, identity: Identity, _form: Mapping[str, str]) -> Done:
    user_id, _ = person_of(identity)
    if identity.session is None or not identity.session.is_enrolled:
        raise ActionRefused("recovery codes replace a lost second factor: add a second factor first")
    async with site.database.transaction(role="engine") as tx:
        codes = await replace_recovery_codes(tx, user_id, actor=identity)
    return after_adding(codes, "")


def after_adding(codes: list[str], message: str) -> Done:
    """Show the recovery codes, which are shown once, or return to the account."""
    if not codes:
        return Done(PATH, message)
    return Done(page="recovery_codes.html", context={"title": "Recovery codes", "codes": codes, "added": message})


def _setup_page(new: NewTotp, error: str = "") -> Done:
    picture = io.BytesIO()
    segno.make(new.uri, error="m").save(
        picture, kind="svg", border=3, xmldecl=False, svgns=False, light="#fff", scale=5
    )
    secret = " ".join(new.secret[at : at + 4] for at in range(0, len(new.secret), 4))
    picture_html = Markup(picture.getvalue().decode())
    context = {"title": "Authenticator app", "picture": picture_html, "secret": secret, "error": error}
    return Done(page="totp.html", context=context)


def issuer(site: Site) -> str:
    """Return the name that the authenticator app shows."""
    return "Onceward" if site.settings.environment == "production" else f"Onceward {site.settings.environment}"


def uuid_of(form: Mapping[str, str], name: str) -> UUID:
    try:
        return UUID(form.get(name, ""))
    except ValueError:
        raise ActionRefused(f"{name} is not an id: use the buttons of the page") from None


EXTRAS = (Extra(PATH, show),)
ACTIONS = (
    Action(path=f"{PATH}/sessions/end", causes=NOTHING, run=_end, scope="user"),
    Action(path=f"{PATH}/sessions/end-all", causes=NOTHING, run=_end_all, scope="user"),
    Action(path=f"{PATH}/totp", causes=NOTHING, run=_start_totp, scope="user", allow_pending=True, recent=True),
    Action(
        path=f"{PATH}/totp/confirm", causes=NOTHING, run=_confirm_totp, scope="user", allow_pending=True, recent=True
    ),
    Action(path=f"{PATH}/factors/remove", causes=NOTHING, run=_remove, scope="user", recent=True),
    Action(path=f"{PATH}/recovery", causes=NOTHING, run=_recovery, scope="user", recent=True),
)
