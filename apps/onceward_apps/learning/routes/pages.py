"""Pages for visitors: the catalogue, a cohort with its checkout, prep, invite, extension, and the verify page of
certificates."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from starlette.responses import FileResponse, RedirectResponse, Response

from onceward import Engine
from onceward.web import ANYBODY, Problem, exposed
from onceward_apps.learning import schools, waitlist
from onceward_apps.learning.certificates import is_erased
from onceward_apps.learning.errors import LearningError
from onceward_apps.learning.link_tokens import hash_token, read_enrollment_token
from onceward_apps.learning.model import is_enrollable
from onceward_apps.learning.routes.requests import EngineHere, MaybeStudent, Visitor
from onceward_apps.learning.routes.templates import STATIC, TYPES, choose_language, missing, page, school_of
from onceward_apps.learning.routes.visitors import note_view
from onceward_apps.learning.seats import OPEN
from onceward_apps.learning.store import catalogue, certificates, checkouts, people, seats, views

router = APIRouter(include_in_schema=False, dependencies=[Depends(choose_language)])


async def _owner(engine: Engine, kind: str, value: object) -> UUID | None:
    async with engine.transaction() as tx:
        return await people.organization_of(tx, kind, str(value)[:200].replace("\x00", ""))


@router.get("/learn")
@exposed(credential=ANYBODY)
async def start(engine: EngineHere, request: Request) -> Response:
    """Show the catalogue of the school whose domain this is; else the organizations that offer cohorts."""
    host = request.headers.get("host", "").partition(":")[0].lower()
    owner = await _owner(engine, "domain", host)
    if owner is not None:
        async with engine.transaction(organization=owner) as tx:
            return RedirectResponse(f"/learn/o/{(await schools.school_of(tx)).slug}", status_code=303)
    offering = await catalogue.schools(engine.db)
    if len(offering) == 1:
        return RedirectResponse(f"/learn/o/{offering[0]['slug']}", status_code=303)
    return page("schools.html", schools=offering)


@router.get("/learn/o/{slug}")
@exposed(credential=ANYBODY)
async def show_catalogue(engine: EngineHere, request: Request, slug: str) -> Response:
    """Show the cohorts of an organization, with the places left."""
    school = await catalogue.school(engine.db, slug[:100].replace("\x00", ""))
    if school is None:
        return missing()
    async with engine.transaction(organization=school["organization_id"]) as tx:
        cohorts, brand = await views.catalogue(tx), await school_of(tx)
        now = await tx.fetchval("select onceward.now()")
    enrollable = {each["id"] for each in cohorts if is_enrollable(each["status"], each["starts_at"], now)}
    response = page("catalogue.html", school=school, cohorts=cohorts, enrollable=enrollable, brand=brand)
    await note_view(engine, request, response, school["organization_id"], "/learn")
    return response


@router.get("/learn/cohorts/{cohort_id}")
@exposed(credential=ANYBODY)
async def show_cohort(engine: EngineHere, request: Request, visitor: Visitor, cohort_id: UUID) -> Response:
    """Show a cohort, with the form to enrol or to join the waitlist."""
    user_id = None if visitor is None else visitor.user_id
    return await _cohort_page(engine, request, cohort_id, user_id, invite=None)


async def _cohort_page(
    engine: Engine, request: Request, cohort_id: UUID, user_id: UUID | None, *, invite: dict[str, Any] | None
) -> Response:
    organization = await _owner(engine, "cohort", cohort_id)
    if organization is None:
        return missing()
    async with engine.transaction(organization=organization) as tx:
        cohort = await views.cohort(tx, cohort_id)
        if cohort is None or cohort["status"] == "DRAFT":
            return missing()
        places = await views.places(tx, cohort_id)
        now = await tx.fetchval("select onceward.now()")
        sessions = await catalogue.sessions(tx, cohort_id)
        paying = user_id is not None and await checkouts.is_waiting(tx, user_id, cohort_id)
        brand = await school_of(tx)
    taken = 0 if places is None else places["sold"] + places["held"]
    response = page(
        "cohort.html",
        cohort=cohort,
        sessions=sessions,
        free=max(0, cohort["max_capacity"] - taken),
        enrollable=is_enrollable(cohort["status"], cohort["starts_at"], now),
        invite=invite,
        paying=paying,
        brand=brand,
    )
    await note_view(engine, request, response, organization, "/learn/cohorts")
    return response


@router.get("/learn/cohorts/{cohort_id}/prep")
async def show_prep(engine: EngineHere, student: MaybeStudent, cohort_id: UUID) -> Response:
    """Show what to prepare before the cohort starts, to its students."""
    if student is None:
        return page("sign_in.html", status=401, token=None, usable=False)
    async with engine.transaction(organization=student.organization) as tx:
        enrollment = await catalogue.enrollment_of(tx, student.user_id, cohort_id)
        if enrollment is None:
            return missing()
        row = await views.get_enrollment(tx, enrollment["id"])
        items = [
            {**each, "body": await views.text_of(tx, UUID(each["id"]), cohort_id) if each["unlocked"] else ""}
            for each in await views.items(tx, row)
            if each["is_prep"] or (each["resource"] and each["unlocked"])
        ]
        brand = await school_of(tx)
    return page("prep.html", enrollment=row, items=items, brand=brand)


@router.get("/learn/invites/{token}")
@exposed(credential="link of the invitation")
async def show_invite(engine: EngineHere, request: Request, token: str) -> Response:
    """Show an invite from the waitlist, with the time that is left and the form to enrol."""
    organization = await _owner(engine, "invite", token)
    if organization is None:
        return page("gone.html", status=410, what="invite")
    try:
        async with engine.transaction(organization=organization) as tx:
            invite = await waitlist.read_invite(tx, token)
            user = await people.user(tx, invite["user_id"])
    except LearningError:
        return page("gone.html", status=410, what="invite")
    shown = {"token": token, "expires_at": invite["expires_at"], "email": user["email"], "name": user["name"]}
    return await _cohort_page(engine, request, invite["cohort_id"], invite["user_id"], invite=shown)


@router.get("/learn/seats/{token}")
@exposed(credential="link of the company")
async def show_seats(engine: EngineHere, token: str) -> Response:
    """Show the seats of a company, with the form to take one."""
    token = token[:100].replace("\x00", "")
    organization = await _owner(engine, "seats", token)
    if organization is None:
        return missing()
    async with engine.transaction(organization=organization) as tx:
        block, brand = await seats.by_token(tx, hash_token(token)), await school_of(tx)
    is_open = block["ended_at"] is None and block["cohort_status"] in OPEN and block["free"] > 0
    return page("seats.html", block=block, token=token, is_open=is_open, brand=brand)


@router.get("/learn/extensions/{token}")
@exposed(credential="link of the offer")
async def show_extension(engine: EngineHere, token: str) -> Response:
    """Show what an extension of the access costs."""
    organization = await _owner(engine, "enrollment", token.partition(".")[0])
    if organization is None:
        return missing()
    async with engine.transaction(organization=organization) as tx:
        enrollment_id = await read_enrollment_token(tx, "extension", token[:200].replace("\x00", ""))
        row = None if enrollment_id is None else await views.enrollment(tx, enrollment_id)
        cohort = None if row is None else await views.cohort(tx, row["cohort_id"])
        if row is None or cohort is None:
            return missing()
        paying, brand = await checkouts.is_extending(tx, row["id"]), await school_of(tx)
    return page("extension.html", enrollment=row, cohort=cohort, token=token, paying=paying, brand=brand)


@router.get("/learn/certificates")
@exposed(credential=ANYBODY)
async def look_up(id: str = "") -> Response:
    """Ask for the id of a certificate, for somebody who has only the document."""
    given = "-".join(id.upper().split())[:60]
    if given and given.replace("-", "").isascii() and given.replace("-", "").isalnum():
        return RedirectResponse(f"/learn/certificates/{given}", status_code=303)
    return page("verify.html", certificate=None, credential_id=given, now=None)


@router.get("/learn/certificates/{credential_id}")
@exposed(credential=ANYBODY)
async def verify(engine: EngineHere, credential_id: str) -> Response:
    """Show whether a certificate is valid. Anyone who has the id may look."""
    organization = await _owner(engine, "credential", credential_id)
    if organization is None:
        return page("verify.html", status=404, certificate=None, credential_id=credential_id[:60], now=None)
    async with engine.transaction(organization=organization) as tx:
        row, brand = await certificates.by_credential(tx, credential_id), await school_of(tx)
        now = await tx.fetchval("select onceward.now()")
    return page("verify.html", certificate=row, credential_id=credential_id, now=now, brand=brand)


@router.get("/learn/certificates/{credential_id}/certificate.pdf")
@exposed(credential=ANYBODY)
async def certificate_document(engine: EngineHere, credential_id: str) -> Response:
    """Return the PDF of a valid certificate."""
    organization = await _owner(engine, "credential", credential_id)
    if organization is None:
        return missing()
    async with engine.transaction(organization=organization) as tx:
        row = await certificates.by_credential(tx, credential_id)
    if row["revoked_at"] is not None or is_erased(row):
        return page("gone.html", status=410, what="certificate")
    if row["document"] is None:
        raise Problem(503, "the document is being written: try again in a moment", headers={"Retry-After": "2"})
    headers = {"Content-Disposition": f'inline; filename="certificate-{credential_id}.pdf"'}
    return Response(bytes(row["document"]), media_type="application/pdf", headers=headers)


@router.get("/learn/static/{name}")
@exposed(credential=ANYBODY)
async def static(name: str) -> Response:
    path = STATIC / name
    if path.parent != STATIC or path.suffix not in TYPES or not path.is_file():
        raise Problem(404, f"this app has no file {name[:60]!r}")
    return FileResponse(path, media_type=TYPES[path.suffix], headers={"Cache-Control": "max-age=300"})
