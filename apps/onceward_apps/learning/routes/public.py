"""Routes for visitors: the catalogue, sign-up, checkout, waitlist, page views and sign-in. They need no login."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from onceward.messages import MAILS
from onceward.web import ANYBODY, delete_secret_cookie, exposed, require_private_transport, set_secret_cookie
from onceward_apps.learning import checkout, discounts, links, sign_in, users, waitlist
from onceward_apps.learning.errors import AlreadyEnrolled, LearningError, NotFound
from onceward_apps.learning.link_tokens import read_enrollment_token
from onceward_apps.learning.routes.requests import (
    SESSION_COOKIE,
    Email,
    EngineHere,
    MaybeStudent,
    Name,
    Visitor,
    acting,
    browser_of,
    has_allowance,
    limit,
    limit_mail,
    owner_of,
    problem,
)
from onceward_apps.learning.routes.visitors import note_view
from onceward_apps.learning.store import certificates, views

router = APIRouter(prefix="/api/v1/learning/public", tags=["learning: visitors"])

HOLDS = 5
HOLDS_PER_S = 31 * 60
"""How many places one client address may hold in the life of a payment page, without being signed in. A stranger could
otherwise hold every place of a cohort with invented addresses."""
LOCALE = r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$"
SHOWN = ("id", "name", "description", "status", "starts_at", "ends_at", "max_capacity", "price", "currency")
SHOWN += ("instalment_price", "instalment_count")


class SignUpIn(BaseModel):
    email: Email
    name: Name = ""
    locale: str | None = Field(None, max_length=35, pattern=LOCALE)


class CheckoutIn(SignUpIn):
    invite_token: str | None = Field(None, max_length=100)
    instalments: bool = Field(False, description="Pay every month instead of at once, if the cohort offers it.")
    discount_code: str = Field("", max_length=60, description="A code that lowers the price.")


class SignInIn(BaseModel):
    email: Email


class TokenIn(BaseModel):
    token: str = Field(max_length=100)


class ViewIn(BaseModel):
    path: str = Field(min_length=1, max_length=500)


@router.get("/cohorts/{cohort_id}")
@exposed(credential=ANYBODY)
async def cohort(engine: EngineHere, cohort_id: UUID) -> dict[str, Any]:
    """Return a cohort. The live query `learning.enrollment_count` says how many places are left."""
    async with acting(engine, await owner_of(engine, "cohort", cohort_id)) as tx:
        row = await views.cohort(tx, cohort_id)
        if row is None or row["status"] == "DRAFT":
            raise NotFound("this cohort does not exist")
        places = await views.places(tx, cohort_id)
    free = 0 if places is None else max(0, row["max_capacity"] - places["sold"] - places["held"])
    return {name: row[name] for name in SHOWN} | {"spots_remaining": free}


@router.post("/cohorts/{cohort_id}/checkout", status_code=201)
@exposed("mail", "money", "call", credential=ANYBODY, limit=f"20 a minute per address; {MAILS}")
async def start_checkout(
    engine: EngineHere, request: Request, visitor: Visitor, cohort_id: UUID, requested: CheckoutIn
) -> dict[str, Any]:
    """Hold a place and return the address of the payment page. 409 says why it is not possible: `cohort_full`.

    A free cohort needs a confirmed address: a mail with a link is sent, and using the link takes the place. One client
    address holds a few places; further pages take theirs when they are paid.

    Only a signed-in student learns that they are enrolled, or that their payment is being processed (409
    `payment_pending`).
    """
    await limit(engine, request, "checkout", per_minute=20)
    organization = await owner_of(engine, "cohort", cohort_id)
    await limit_mail(engine, request, requested.email)
    async with acting(engine, organization) as tx:
        await _require_public(tx, cohort_id)
        user = await users.register(
            tx, email=requested.email, name=requested.name, locale=requested.locale, confirmed=False
        )
        is_free = await _is_free(tx, cohort_id)
    is_known = visitor is not None and visitor.user_id == user["id"]
    if is_free and not is_known:
        try:
            await sign_in.send_confirmation(engine, organization, user["id"], cohort_id)
        except LearningError as error:
            raise problem(error) from error
        return {"url": links.check_mail()}
    may_hold = is_known or await has_allowance(engine, request, "hold", number=HOLDS, per_s=HOLDS_PER_S)
    try:
        opened = await checkout.start_checkout(
            engine,
            organization,
            cohort_id=cohort_id,
            user_id=user["id"],
            invite_token=requested.invite_token,
            instalments=requested.instalments,
            is_known=is_known,
            browser=browser_of(request),
            may_hold=may_hold,
            discount_code=requested.discount_code.strip(),
        )
    except AlreadyEnrolled:
        # The same answer as for a new enrolment: nobody learns from this form who is enrolled. Their home page asks for
        # a sign-in.
        return {"url": links.home()}
    except LearningError as error:
        raise problem(error) from error
    if not is_known and opened.checkout_id is not None:
        await sign_in.remind(engine, organization, user["id"], cohort_id)
    return {"url": links.home() if opened.enrollment_id is not None else opened.url}


@router.get("/cohorts/{cohort_id}/discount")
@exposed(credential=ANYBODY, limit="10 a minute per address")
async def try_discount(
    engine: EngineHere,
    request: Request,
    cohort_id: UUID,
    code: Annotated[str, Query(min_length=1, max_length=60)],
    instalments: bool = False,
) -> dict[str, Any]:
    """Return the price with a discount code. 409 `discount_invalid`: the code does not count for this cohort."""
    await limit(engine, request, "discount", per_minute=10)
    async with acting(engine, await owner_of(engine, "cohort", cohort_id)) as tx:
        await _require_public(tx, cohort_id)
        price = await discounts.preview(tx, cohort_id, code, instalments=instalments)
    return {"price": price.amount, "currency": price.currency}


@router.post("/seats/{token}", status_code=202)
@exposed("mail", credential="link of the company", limit=f"20 a minute per address; {MAILS}")
async def take_seat(engine: EngineHere, request: Request, token: str, requested: SignUpIn) -> dict[str, Any]:
    """Ask for a seat of a company. A mail with a link is sent, and using the link takes the seat."""
    await limit(engine, request, "seats", per_minute=20)
    organization = await owner_of(engine, "seats", token[:100].replace("\x00", ""))
    await limit_mail(engine, request, requested.email)
    async with acting(engine, organization) as tx:
        user = await users.register(
            tx, email=requested.email, name=requested.name, locale=requested.locale, confirmed=False
        )
    try:
        await sign_in.confirm_for_seat(engine, organization, token, user["id"], requested.email)
    except LearningError as error:
        raise problem(error) from error
    return {"url": links.check_mail()}


@router.post("/cohorts/{cohort_id}/waitlist", status_code=202)
@exposed("mail", "call", credential=ANYBODY, limit=f"20 a minute per address; {MAILS}")
async def join_waitlist(engine: EngineHere, request: Request, cohort_id: UUID, requested: SignUpIn) -> dict[str, Any]:
    """Join the waitlist. A mail invites you when a place is free, once you have confirmed your address."""
    await limit(engine, request, "waitlist", per_minute=20)
    organization = await owner_of(engine, "cohort", cohort_id)
    await limit_mail(engine, request, requested.email)
    async with acting(engine, organization) as tx:
        await _require_public(tx, cohort_id)
        user = await users.register(
            tx, email=requested.email, name=requested.name, locale=requested.locale, confirmed=False
        )
        with suppress(
            AlreadyEnrolled
        ):  # the same answer as for everybody: nobody learns from this form who is enrolled
            await waitlist.join(tx, cohort_id, user["id"])
    await sign_in.confirm_for_waitlist(engine, organization, user["id"], cohort_id)
    return {"status": "WAITLISTED"}


async def _is_free(tx: Any, cohort_id: UUID) -> bool:
    return (await views.cohort(tx, cohort_id))["price"] == 0


async def _require_public(tx: Any, cohort_id: UUID) -> None:
    row = await views.cohort(tx, cohort_id)
    if row is None or row["status"] == "DRAFT":
        raise NotFound("this cohort does not exist")


@router.post("/extensions/{token}/checkout", status_code=201)
@exposed("money", "call", credential="link of the offer", limit="20 a minute per address")
async def start_extension(engine: EngineHere, request: Request, token: str) -> dict[str, Any]:
    """Return the payment page for an access extension. The token is that of the mail's link."""
    await limit(engine, request, "checkout", per_minute=20)
    organization = await owner_of(engine, "enrollment", token.partition(".")[0])
    async with acting(engine, organization) as tx:
        enrollment_id = await read_enrollment_token(tx, "extension", token)
    if enrollment_id is None:
        raise problem(NotFound("this link is not complete: open it from the mail"))
    try:
        opened = await checkout.start_extension(engine, organization, enrollment_id=enrollment_id)
    except LearningError as error:
        raise problem(error) from error
    return {"url": opened.url}


@router.post("/cohorts/{cohort_id}/views", status_code=204)
@exposed("nothing", credential=ANYBODY, limit="120 a minute per address")
async def page_view(engine: EngineHere, request: Request, cohort_id: UUID, view: ViewIn) -> Response:
    """Count a page view. A visitor is a random id in a cookie, not an address."""
    await limit(engine, request, "views", per_minute=120)
    response = Response(status_code=204)
    await note_view(engine, request, response, await owner_of(engine, "cohort", cohort_id), view.path)
    return response


@router.post("/sign-in", status_code=202)
@exposed("mail", credential=ANYBODY, limit=f"6 a minute per address; {MAILS}")
async def ask_for_link(engine: EngineHere, request: Request, requested: SignInIn) -> dict[str, str]:
    """Send a sign-in link. The answer is the same whether the address is known or not."""
    await limit(engine, request, "sign-in", per_minute=6)
    await limit_mail(engine, request, requested.email)
    await sign_in.send_links(engine, requested.email)
    return {"status": "if the address is known, a mail with a sign-in link is on its way"}


@router.post("/session", status_code=201, responses={410: {"description": "The link is unknown, used or expired."}})
@exposed("nothing", credential="sign-in link", limit="20 a minute per address")
async def open_session(engine: EngineHere, request: Request, response: Response, used: TokenIn) -> dict[str, Any]:
    """Use a sign-in link, once, and open a session (a cookie)."""
    await limit(engine, request, "session", per_minute=20)
    require_private_transport(request)
    try:
        session = await sign_in.redeem(engine, used.token)
    except LearningError as error:
        raise problem(error) from error
    set_secret_cookie(request, response, SESSION_COOKIE, session.token, max_age_s=sign_in.SESSION_DAYS * 86400)
    home = links.home(session.enrollment_id)
    return {"user_id": session.user_id, "expires_at": session.expires_at, "url": home, "refused": session.refused}


@router.delete("/session", status_code=204)
@exposed("nothing")
async def close_session(engine: EngineHere, request: Request, student: MaybeStudent) -> Response:
    if student is not None and student.session is not None:
        await sign_in.sign_out(engine, student.session)
    response = Response(status_code=204)
    delete_secret_cookie(request, response, SESSION_COOKIE)
    return response


@router.get("/certificates/{credential_id}")
@exposed(credential=ANYBODY)
async def verify_certificate(engine: EngineHere, credential_id: str) -> dict[str, Any]:
    """Say whether a credential is valid. Anyone who has its id may ask."""
    if len(credential_id) > 60:
        raise problem(NotFound("this credential does not exist"))
    async with acting(engine, await owner_of(engine, "credential", credential_id)) as tx:
        row = await certificates.by_credential(tx, credential_id)
    return {
        "credential_id": credential_id,
        "valid": row["revoked_at"] is None,
        "replaced": row["replaced_by"] is not None,
        "issued_at": row["issued_at"],
        "revoked_at": row["revoked_at"],
        "snapshot": row["snapshot"],
    }
