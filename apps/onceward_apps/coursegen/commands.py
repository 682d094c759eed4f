"""`onceward coursegen`: tiers of users, courses, and resuming them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any
from uuid import UUID

import typer

from onceward.cli import ACTOR, CommandFailed, JsonOption, OrganizationOption, document, engine_for, listing, run, say

group = typer.Typer(no_args_is_help=True, help="Course generation: tiers, courses, costs.")
acting = partial(engine_for, "onceward_apps.coursegen:app", refusals="onceward_apps.coursegen.errors:CoursegenError")
"""Open the engine, with the id of an organization, given by slug or id."""

CourseArgument = Annotated[UUID, typer.Argument(metavar="COURSE", help="Id of the course.")]


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="coursegen")


@group.command("tier")
def set_tier(
    user: Annotated[UUID, typer.Argument(metavar="USER", help="Id of the user: the subject of their JWT.")],
    tier: Annotated[str, typer.Argument(metavar="TIER", help="One of ONCEWARD_COURSEGEN_TIERS, such as PREMIUM.")],
    organization: OrganizationOption,
) -> None:
    """Set the tier of a user."""
    from onceward_apps.coursegen.app import tiers
    from onceward_apps.coursegen.store import courses

    async def work() -> None:
        async with acting(organization) as (engine, organization_id):
            slots, name = tiers().at_most, tier.upper()
            if name not in slots:
                raise CommandFailed(f"tier {name} is not one of {', '.join(slots)}")
            async with engine.transaction(organization=organization_id) as tx:
                await courses.set_tier(tx, user, name)
                await tx.audit(
                    "coursegen.tier_set",
                    entity_type="coursegen_user",
                    entity_id=user,
                    changes={"tier": name},
                    actor=ACTOR,
                )

    run(work())
    say(f"user {user} has the tier {tier.upper()}")


@group.command("courses")
def list_courses(organization: OrganizationOption, as_json: JsonOption = False) -> None:
    """List the courses that changed last, with their state, progress and cost."""
    from onceward_apps.coursegen.store import overview

    async def work() -> list[Any]:
        async with acting(organization) as (engine, organization_id):
            async with engine.transaction(organization=organization_id) as tx:
                return await overview.recent(tx, organization_id)

    columns = ("id", "title", "status", "tier", "percentage", "cost_micros", "error_code", "updated_at")
    listing([dict(row) for row in run(work())], columns=columns, as_json=as_json, empty="no courses")


@group.command("show")
def show(course: CourseArgument, organization: OrganizationOption) -> None:
    """Show a course: its steps, its costs, and every call to the language model."""
    from onceward_apps.coursegen import course_views
    from onceward_apps.coursegen.store import calls, courses

    async def work() -> dict[str, Any]:
        async with acting(organization) as (engine, organization_id):
            async with engine.transaction(organization=organization_id) as tx:
                row = await courses.lock(tx, course)
                if row is None:
                    raise CommandFailed(f"course {course} does not exist in this organization")
                shown = await course_views.read_progress(tx, row)
                return {**shown, "calls": [dict(each) for each in await calls.listed(tx, course)]}

    document(run(work()))


@group.command("resume")
def resume(course: CourseArgument, organization: OrganizationOption) -> None:
    """Continue a failed or cancelled course. It waits for a slot like a new request."""
    from onceward_apps.coursegen.admission import Admitted, GenerationRequest, look_up, refuse_early, request_generation
    from onceward_apps.coursegen.store import courses

    async def work() -> Admitted:
        async with acting(organization) as (engine, organization_id):
            async with engine.transaction(organization=organization_id) as tx:
                row = await courses.lock(tx, course)
                if row is None or row["status"] not in ("failed", "cancelled"):
                    state = "does not exist in this organization" if row is None else f"is {row['status']}"
                    raise CommandFailed(f"course {course} {state}; only a failed or cancelled course can be resumed")
                await tx.audit("coursegen.resumed", entity_type="course", entity_id=course, actor=ACTOR)
            requested = GenerationRequest(organization=organization_id, user_id=row["user_id"], course_id=course)
            candidate = await look_up(engine, organization_id, row["user_id"], course)
            refuse_early(engine, requested, candidate)
            return await request_generation(engine, requested, candidate)

    say(f"course {course} continues as job {run(work()).job_id}")
