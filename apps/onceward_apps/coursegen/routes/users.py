"""Routes for users with a JWT: create, generate, follow, cancel, resume, read and export their courses."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from onceward import Engine
from onceward.telemetry import bind
from onceward.web import exposed, request_id_of
from onceward_apps.coursegen import completion, course_views, model, safe_text, sources
from onceward_apps.coursegen import forecast as forecasts
from onceward_apps.coursegen.admission import Admitted, GenerationRequest, look_up, refuse_early, request_generation
from onceward_apps.coursegen.app import CoursegenSettings, app, plan
from onceward_apps.coursegen.errors import BadRequest, NotPossible
from onceward_apps.coursegen.routes.owned import locale_of, owned
from onceward_apps.coursegen.routes.requests import EngineHere, Person, User, problems, read_body
from onceward_apps.coursegen.sources import Sources
from onceward_apps.coursegen.store import costs, courses

router = APIRouter(prefix="/api/coursegen", tags=["coursegen: users"])

Title = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Language = Annotated[str, StringConstraints(pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$", max_length=35)]
Usd = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class GenerateIn(Body):
    """`webhookUrl` gets `course.completed` or `course.failed`. `restart` writes a new version of everything."""

    courseId: UUID
    webhookUrl: Annotated[str, StringConstraints(max_length=2000)] | None = None
    restart: bool = False


class CourseIn(Body):
    """`budget` is in US dollars, and cannot be more than the installation allows."""

    title: Title
    brief: Annotated[str, StringConstraints(max_length=8000)] = ""
    language: Language = "en"
    lessons: int = Field(5, ge=1, le=50)
    budget: Usd | None = None
    sources: Sources = []
    pictures: bool = Field(False, description="Whether a drawing is made for each lesson.")


class CourseChange(Body):
    """Fields that are left out stay. Another number of lessons counts from the next outline."""

    title: Title | None = None
    brief: Annotated[str, StringConstraints(max_length=8000)] | None = None
    language: Language | None = None
    lessons: Annotated[int, Field(ge=1, le=50)] | None = None
    budget: Usd | None = None
    sources: Sources | None = None
    pictures: bool | None = None


class ResumeIn(Body):
    """A course whose budget is spent needs a larger one to be resumed."""

    budget: Usd | None = None


@router.post("/generate")
@exposed("call", limit="courses at the same time and spending, by the tier of the user")
async def generate(engine: EngineHere, user: User, request: Request) -> dict[str, Any]:
    """Generate a course: 200 with its job, and with its place in the line if no slot is free.

    A course that is being generated keeps its job; no second slot is taken. A completed course needs `restart`.
    """
    with problems(request):
        body = await read_body(request, GenerateIn)
        admitted = await _admit(engine, user, request, body.courseId, webhook_url=body.webhookUrl, restart=body.restart)
    return _accepted(admitted)


def _accepted(admitted: Admitted) -> dict[str, Any]:
    """Return the answer to an accepted request: its job, and its place in the line if it waits."""
    answer: dict[str, Any] = {"success": True, "jobId": str(admitted.job_id)}
    if admitted.place is not None:
        answer["queue"] = asdict(admitted.place)
    return answer


async def _admit(
    engine: Engine,
    user: Person,
    request: Request,
    course_id: UUID,
    *,
    webhook_url: str | None = None,
    restart: bool = False,
    lesson: int | None = None,
    budget_micros: int | None = None,
    only: frozenset[str] | None = None,
) -> Admitted:
    """Look at the limits, check the address, then accept. `only`: the states in which this is possible."""
    candidate = await look_up(engine, user.organization, user.user_id, course_id)
    with bind(requestId=request_id_of(request), userId=user.user_id, tier=candidate.tier, courseId=course_id):
        if only is not None and candidate.course["status"] not in only:
            raise NotPossible(f"the course is {candidate.course['status']}")
        requested = GenerationRequest(
            organization=user.organization,
            user_id=user.user_id,
            course_id=course_id,
            request_id=request_id_of(request),
            restart=restart,
            lesson=lesson,
            budget_micros=budget_micros,
        )
        refuse_early(engine, requested, candidate)
        if webhook_url is not None:
            requested = replace(requested, webhook=(webhook_url, await _endpoint(engine, user, webhook_url)))
        return await request_generation(engine, requested, candidate)


async def _endpoint(engine: Engine, user: Person, url: str) -> UUID:
    """Return the endpoint for the address of a request. Raises `Invalid` for one that is not safe to call."""
    if engine.endpoints is None:
        raise BadRequest("webhookUrl: this installation sends no webhooks")
    return await engine.endpoints.for_url(user.organization, url, actor=user.identity)


# -- courses ---------------------------------------------------------------------------------------------------------


@router.post("/courses", status_code=201)
@exposed("nothing")
async def create(engine: EngineHere, user: User, request: Request) -> dict[str, Any]:
    """Create a course. It is a draft until it is generated."""
    settings = app.settings(CoursegenSettings)
    with problems(request):
        body = await read_body(request, CourseIn)
        if body.lessons > settings.max_lessons:
            raise BadRequest(f"lessons: at most {settings.max_lessons} are allowed, not {body.lessons}")
        budget = min(body.budget or settings.budget_usd, settings.budget_usd)
        async with engine.transaction(organization=user.organization) as tx:
            course = await courses.add(
                tx,
                user.user_id,
                title=safe_text.plain_text(body.title, most=200) or "?",
                brief=safe_text.plain_text(body.brief, most=8000),
                language=body.language,
                lesson_count=body.lessons,
                budget_micros=max(1, round(budget * model.MICROS)),
                sources=sources.stored(body.sources),
                pictures=body.pictures,
            )
            return course_views.progress(course, [], [], 0, locale=locale_of(request))


@router.patch("/courses/{course_id}")
@exposed("nothing")
async def edit(engine: EngineHere, user: User, course_id: UUID, request: Request) -> dict[str, Any]:
    """Change the description of a course that is not being generated. What is written stays."""
    settings = app.settings(CoursegenSettings)
    with problems(request):
        body = await read_body(request, CourseChange)
        if body.lessons is not None and body.lessons > settings.max_lessons:
            raise BadRequest(f"lessons: at most {settings.max_lessons} are allowed, not {body.lessons}")
        async with engine.transaction(organization=user.organization) as tx:
            await owned(tx, course_id, user)
            course = await courses.lock(tx, course_id)
            if course["status"] in model.RUNNING:
                raise NotPossible("the course is being generated; cancel it first")
            budget = course["budget_micros"]
            if body.budget is not None:
                budget = max(1, round(min(body.budget, settings.budget_usd) * model.MICROS))
            title = None if body.title is None else safe_text.plain_text(body.title, most=200) or "?"
            await courses.edit(
                tx,
                course_id,
                title=title or course["title"],
                brief=course["brief"] if body.brief is None else safe_text.plain_text(body.brief, most=8000),
                language=body.language or course["language"],
                lesson_count=body.lessons or course["lesson_count"],
                budget_micros=budget,
                sources=course["sources"] if body.sources is None else sources.stored(body.sources),
                pictures=course["pictures"] if body.pictures is None else body.pictures,
            )
            return await course_views.read_progress(tx, await courses.lock(tx, course_id), locale=locale_of(request))


@router.get("/courses")
async def listed(
    engine: EngineHere, user: User, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> list[dict[str, Any]]:
    async with engine.transaction(organization=user.organization) as tx:
        return [dict(row) for row in await courses.listed(tx, user.user_id, limit=limit)]


@router.get("/courses/{course_id}")
async def progress(engine: EngineHere, user: User, course_id: UUID, request: Request) -> dict[str, Any]:
    """Return the progress of a course, for clients that poll. The live query `coursegen.progress` returns the same."""
    with problems(request):
        async with engine.transaction(organization=user.organization) as tx:
            course = await owned(tx, course_id, user)
            return await course_views.read_progress(tx, course, locale=locale_of(request))


@router.get("/courses/{course_id}/forecast")
async def forecast(
    engine: EngineHere, user: User, course_id: UUID, request: Request, restart: bool = False
) -> dict[str, Any]:
    """Return what the generation will probably cost, the most it can cost, and what the caps of the month leave."""
    with problems(request):
        async with engine.transaction(organization=user.organization) as tx:
            course = await owned(tx, course_id, user)
            expected = await forecasts.forecast(tx, course, plan(await costs.own_settings(tx)), restart=restart)
    return {**asdict(expected), "budget_micros": course["budget_micros"], "fits": expected.fits}


@router.delete("/courses/{course_id}", status_code=204)
@exposed("nothing")
async def delete(engine: EngineHere, user: User, course_id: UUID, request: Request) -> None:
    """Delete a course. A job that generates it stops; its costs stay recorded."""
    with problems(request):
        async with engine.transaction(organization=user.organization) as tx:
            course = await owned(tx, course_id, user)
            if course["status"] in model.RUNNING and course["job_id"] is not None:
                await tx.cancel(course["job_id"])
            await courses.delete(tx, course_id)


@router.post("/courses/{course_id}/cancel")
@exposed("call")
async def cancel(engine: EngineHere, user: User, course_id: UUID, request: Request) -> dict[str, Any]:
    """Stop the generation. Finished lessons stay; the slot is free as soon as the worker has stopped."""
    with problems(request):
        async with engine.transaction(organization=user.organization) as tx:
            await owned(tx, course_id, user)
            course = await courses.lock(tx, course_id)
            if not await completion.end(tx, course, "cancelled", "cancelled"):
                raise NotPossible(f"the course is {course['status']}, not being generated")
            await tx.cancel(course["job_id"])
    return {"success": True, "status": "cancelled"}


@router.post("/courses/{course_id}/resume")
@exposed("call", limit="courses at the same time and spending, by the tier of the user")
async def resume(engine: EngineHere, user: User, course_id: UUID, request: Request) -> dict[str, Any]:
    """Continue a failed or cancelled course, or an unfinished new version. No finished lesson is paid for again."""
    with problems(request):
        body = await read_body(request, ResumeIn) if await request.body() else ResumeIn()
        budget = None
        if body.budget is not None:
            budget = round(min(body.budget, app.settings(CoursegenSettings).budget_usd) * model.MICROS)
        only = frozenset({"failed", "cancelled", "completed"}) | model.RUNNING
        admitted = await _admit(engine, user, request, course_id, only=only, budget_micros=budget)
    return _accepted(admitted)


@router.post("/courses/{course_id}/lessons/{number}/retry")
@exposed("call", limit="courses at the same time and spending, by the tier of the user")
async def retry_lesson(
    engine: EngineHere, user: User, course_id: UUID, number: Annotated[int, Path(ge=1, le=10_000)], request: Request
) -> dict[str, Any]:
    """Write one lesson and its exercises again. Readers see the old ones until the new version is complete."""
    with problems(request):
        only = frozenset({"completed", "failed", "cancelled"})
        admitted = await _admit(engine, user, request, course_id, lesson=number, only=only)
    return _accepted(admitted)
