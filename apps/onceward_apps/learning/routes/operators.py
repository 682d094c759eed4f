"""Routes for operators: cohorts and their status, content, students, attendance, waitlist, surveys, metrics."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime, BaseModel, Field

from onceward.web import ANYTHING, AtMost, exposed
from onceward_apps.learning import attendance, certificates, cohorts, content, enrollments, users, waitlist
from onceward_apps.learning.errors import InvalidRequest, NotFound
from onceward_apps.learning.model import CohortStatus, transitions_from
from onceward_apps.learning.routes.requests import Email, EngineHere, Link, Operator, Reason, Title, Viewer, acting
from onceward_apps.learning.routes.sessions import SessionIn
from onceward_apps.learning.store import certificates as certificate_rows
from onceward_apps.learning.store import curriculum, surveys, views

router = APIRouter(prefix="/api/v1/learning", tags=["learning: operators"])


class CohortIn(BaseModel):
    """`price` is in minor units: 49900 EUR is 499 euros."""

    name: Title
    description: str = Field("", max_length=5000)
    starts_at: AwareDatetime
    ends_at: AwareDatetime
    max_capacity: int = Field(ge=0, le=1_000_000)
    price: int = Field(ge=0, le=100_000_000)
    currency: str = Field(pattern=r"^[A-Z]{3}$")
    required_attendance_percentage: int = Field(80, ge=0, le=100)
    has_live_sessions: bool = True
    cal_event_type_id: int | None = Field(None, ge=1, lt=2**63)
    zoom_link: Link | None = None
    slack_channel_url: Link | None = None
    extension_price: int = Field(0, ge=0, le=100_000_000)
    extension_days: int = Field(30, ge=1, le=3650)
    instalment_price: int = Field(0, ge=0, le=100_000_000)
    instalment_count: int = Field(0, ge=0, le=60)
    time_zone: str = Field("UTC", max_length=60, description="Mails count days and hours in this zone.")
    sessions: Annotated[list[SessionIn], AtMost(500)] = Field(default_factory=list[SessionIn])


class StatusIn(BaseModel):
    status: CohortStatus
    reason: str | None = Field(None, max_length=500)


class CapacityIn(BaseModel):
    max_capacity: int = Field(ge=0, le=1_000_000)


class ItemIn(BaseModel):
    kind: Literal["lesson", "assignment", "quiz"]
    title: Title
    body: str | None = Field(None, max_length=100_000)
    url: Link | None = None
    position: int = Field(0, ge=0, le=100_000)
    required: bool = True
    is_prep: bool = False
    resource: Literal["beginner-prep", "advanced-challenges"] | None = None
    graded: bool = Field(False, description="An assignment that is handed in and graded, not ticked by the student.")
    pass_percentage: int = Field(80, ge=1, le=100, description="Right answers that a quiz with questions needs.")


class EnrolIn(BaseModel):
    """`reason` says why nothing is paid here: a scholarship, a bank transfer, the seat of a company."""

    email: Email
    name: str = Field("", max_length=200)
    reason: Reason


class AttendanceIn(BaseModel):
    session_id: UUID
    attended: bool
    reason: Reason


class MoveIn(BaseModel):
    cohort_id: UUID
    reason: Reason


class PriorityIn(BaseModel):
    priority: int = Field(ge=-1000, le=1000)


class UserIn(BaseModel):
    email: Email
    name: str = Field("", max_length=200)
    locale: str | None = Field(None, max_length=35)


class UserChange(BaseModel):
    email: Email | None = None
    name: str | None = Field(None, max_length=200)
    locale: str | None = Field(None, max_length=35)


class SurveyMapIn(BaseModel):
    """`fields` says which question fills which field; a question that is not named fills the field of its own id."""

    kind: Literal["intake", "exit", "feedback"]
    fields: Annotated[dict[str, Annotated[str, Field(max_length=100)]], AtMost(200)] = Field(
        default_factory=dict[str, str]
    )


# -- cohorts -----------------------------------------------------------------------------------------------------------


@router.get("/cohorts")
async def list_cohorts(engine: EngineHere, who: Viewer) -> list[dict[str, Any]]:
    """List cohorts with places, waitlist, NPS and revenue."""
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in await views.cohorts(tx, who.organization)]


@router.post("/cohorts", status_code=201)
@exposed("nothing")
async def create_cohort(engine: EngineHere, who: Operator, new: CohortIn) -> dict[str, Any]:
    values = new.model_dump(exclude={"sessions"})
    async with acting(engine, who.organization) as tx:
        sessions = [cohorts.NewSession(**each.model_dump()) for each in new.sessions]
        return dict(await cohorts.create_cohort(tx, cohorts.NewCohort(**values, sessions=sessions), actor=who.actor))


@router.get("/cohorts/{cohort_id}")
async def show_cohort(engine: EngineHere, who: Viewer, cohort_id: UUID) -> dict[str, Any]:
    async with acting(engine, who.organization) as tx:
        row = await views.cohort(tx, cohort_id)
        if row is None:
            raise NotFound(f"there is no cohort {cohort_id}")
        history = await views.history(tx, cohort_id)
    return {
        **dict(row),
        "can_transition_to": transitions_from(row["status"]),
        "history": [dict(each) for each in history],
    }


@router.post("/cohorts/{cohort_id}/status")
@exposed(*ANYTHING)
async def set_status(engine: EngineHere, who: Operator, cohort_id: UUID, new: StatusIn) -> dict[str, Any]:
    """Change the status. CANCELLED starts the refunds of everybody; a change that is not allowed is refused."""
    async with acting(engine, who.organization) as tx:
        row = await cohorts.set_status(tx, cohort_id, new.status, actor=who.actor, reason=new.reason)
    return {"cohort_id": cohort_id, "status": row["status"], "can_transition_to": transitions_from(row["status"])}


@router.post("/cohorts/{cohort_id}/capacity")
@exposed("mail", "call")
async def set_capacity(engine: EngineHere, who: Operator, cohort_id: UUID, new: CapacityIn) -> dict[str, Any]:
    async with acting(engine, who.organization) as tx:
        await cohorts.set_capacity(tx, cohort_id, new.max_capacity, actor=who.actor)
    return {"cohort_id": cohort_id, "max_capacity": new.max_capacity}


@router.post("/cohorts/{cohort_id}/items", status_code=201)
@exposed("nothing")
async def add_item(engine: EngineHere, who: Operator, cohort_id: UUID, new: ItemIn) -> dict[str, Any]:
    async with acting(engine, who.organization) as tx:
        await _require_cohort(tx, cohort_id)
        return dict(await content.add_item(tx, cohort_id, new.model_dump(), actor=who.actor))


@router.get("/cohorts/{cohort_id}/enrollments")
async def list_enrollments(
    engine: EngineHere, who: Viewer, cohort_id: UUID, limit: int = Query(200, ge=1, le=1000), after: UUID | None = None
) -> list[dict[str, Any]]:
    """List the students, the newest first. `after` is the id of the last one of the page before."""
    async with acting(engine, who.organization) as tx:
        await _require_cohort(tx, cohort_id)
        return [dict(row) for row in await curriculum.enrollments(tx, cohort_id, limit, after)]


@router.post("/cohorts/{cohort_id}/enrollments", status_code=201)
@exposed("mail", "call")
async def enrol(engine: EngineHere, who: Operator, cohort_id: UUID, new: EnrolIn) -> dict[str, Any]:
    """Enrol a person without a payment page. The same person again gets the same enrolment."""
    async with acting(engine, who.organization) as tx:
        user = await users.register(tx, email=new.email, name=new.name)
        enrollment_id = await enrollments.enrol_by_hand(tx, cohort_id, user["id"], reason=new.reason, actor=who.actor)
    return {"enrollment_id": enrollment_id, "user_id": user["id"]}


@router.get("/cohorts/{cohort_id}/waitlist")
async def list_waitlist(engine: EngineHere, who: Viewer, cohort_id: UUID) -> list[dict[str, Any]]:
    async with acting(engine, who.organization) as tx:
        await _require_cohort(tx, cohort_id)
        return [dict(row) for row in await curriculum.waitlist(tx, cohort_id)]


@router.post("/waitlist/{entry_id}/priority")
@exposed("nothing")
async def set_priority(engine: EngineHere, who: Operator, entry_id: UUID, new: PriorityIn) -> dict[str, Any]:
    async with acting(engine, who.organization) as tx:
        await waitlist.set_priority(tx, entry_id, new.priority, actor=who.actor)
    return {"id": entry_id, "priority": new.priority}


# -- students ----------------------------------------------------------------------------------------------------------


@router.post("/users", status_code=201)
@exposed("call")
async def sign_up(engine: EngineHere, who: Operator, new: UserIn) -> dict[str, Any]:
    async with acting(engine, who.organization) as tx:
        row = await users.register(tx, email=new.email, name=new.name, locale=new.locale)
        return {name: row[name] for name in ("id", "email", "name", "created_at")}


@router.patch("/users/{user_id}")
@exposed("call")
async def change_user(engine: EngineHere, who: Operator, user_id: UUID, changes: UserChange) -> dict[str, Any]:
    async with acting(engine, who.organization) as tx:
        row = await users.update_profile(tx, user_id, **changes.model_dump())
        return {name: row[name] for name in ("id", "email", "name", "locale")}


@router.get("/enrollments/{enrollment_id}")
async def show_enrollment(engine: EngineHere, who: Viewer, enrollment_id: UUID) -> dict[str, Any]:
    """Return an enrolment with its percentages and what is missing for a certificate."""
    async with acting(engine, who.organization) as tx:
        row = await views.enrollment(tx, enrollment_id)
        if row is None:
            raise NotFound(f"there is no enrolment {enrollment_id}")
        standing = await certificates.standing(tx, enrollment_id)
        certificate = await certificate_rows.by_enrollment(tx, enrollment_id)
        sessions = await views.sessions(tx, row["cohort_id"], enrollment_id)
    hidden = ("claim_id", "changed_by")  # of no use outside
    return {
        **{name: value for name, value in dict(row).items() if name not in hidden},
        "completion_percentage": standing.completion,
        "attendance_percentage": standing.attendance,
        "missing_for_certificate": standing.missing(),
        "certificate": None if certificate is None else dict(certificate),
        "sessions": [dict(each) for each in sessions],
    }


@router.post("/enrollments/{enrollment_id}/attendance")
@exposed("mail", "call")
async def correct_attendance(
    engine: EngineHere, who: Operator, enrollment_id: UUID, correction: AttendanceIn
) -> dict[str, Any]:
    """Correct the attendance of one session. The correction is audited and outweighs what was observed."""
    async with acting(engine, who.organization) as tx:
        standing = await attendance.correct(
            tx,
            enrollment_id,
            correction.session_id,
            attended=correction.attended,
            reason=correction.reason,
            actor=who.actor,
        )
    return {"attendance_percentage": standing.attendance, "missing_for_certificate": standing.missing()}


@router.post("/enrollments/{enrollment_id}/move")
@exposed("mail", "call")
async def move_student(engine: EngineHere, who: Operator, enrollment_id: UUID, target: MoveIn) -> dict[str, Any]:
    """Move a student to another cohort that has a free place."""
    async with acting(engine, who.organization) as tx:
        await enrollments.move(tx, enrollment_id, target.cohort_id, actor=who.actor, reason=target.reason)
    return {"enrollment_id": enrollment_id, "cohort_id": target.cohort_id}


# -- surveys and metrics -----------------------------------------------------------------------------------------------


@router.put("/surveys/{survey_id}", status_code=204)
@exposed("nothing")
async def set_survey_map(engine: EngineHere, who: Operator, survey_id: str, new: SurveyMapIn) -> Response:
    """Say which survey this is for the organization, and which question fills which field."""
    async with acting(engine, who.organization) as tx:
        if not 1 <= len(survey_id) <= 200:
            raise InvalidRequest("survey_id must have 1 to 200 characters")
        if await surveys.set_survey_map(tx, survey_id, new.kind, new.fields):
            await tx.audit("survey_map_set", entity_type="Survey", entity_id=survey_id, actor=who.actor)
    return Response(status_code=204)


@router.get("/surveys")
async def list_survey_maps(engine: EngineHere, who: Viewer) -> list[dict[str, Any]]:
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in await surveys.survey_maps(tx)]


@router.get("/metrics/daily")
async def daily_metrics(engine: EngineHere, who: Viewer, days: int = Query(30, ge=1, le=400)) -> list[dict[str, Any]]:
    """Return the stored metrics and KPIs, the newest day first."""
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in await curriculum.daily_metrics(tx, days)]


async def _require_cohort(tx: Any, cohort_id: UUID) -> None:
    if await views.cohort(tx, cohort_id) is None:
        raise NotFound(f"there is no cohort {cohort_id}")
