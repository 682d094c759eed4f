"""`onceward learning`: cohorts, their students, certificates and attendance of the learning platform."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import typer

from onceward.cli import (
    ACTOR,
    CommandFailed,
    JsonOption,
    OrganizationOption,
    document,
    listing,
    run,
    say,
    transaction_for,
)

group = typer.Typer(no_args_is_help=True, help="The learning platform: cohorts, students and certificates.")
acting = partial(transaction_for, "onceward_apps.learning:app", refusals="onceward_apps.learning.errors:LearningError")
"""Open a transaction for an organization, given by slug or id."""

CohortArgument = Annotated[UUID, typer.Argument(metavar="COHORT", help="Id of the cohort.")]
EnrollmentArgument = Annotated[UUID, typer.Argument(metavar="ENROLLMENT", help="Id of the enrolment.")]


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="learning")


@group.command("cohort")
def add_cohort(
    name: str,
    organization: OrganizationOption,
    starts: Annotated[str, typer.Option("--starts", help="ISO time with offset: 2031-06-21T18:00:00+02:00.")],
    ends: Annotated[str, typer.Option("--ends", help="ISO time with offset.")],
    capacity: Annotated[int, typer.Option("--capacity", min=0, help="Number of places.")],
    price: Annotated[int, typer.Option("--price", min=0, help="Price in minor units; 49900 EUR is 499 euros.")],
    currency: Annotated[str, typer.Option("--currency", help="Three-letter ISO 4217 code.")],
    open_now: Annotated[bool, typer.Option("--open", help="Open the cohort for enrolment at once.")] = False,
    live_sessions: Annotated[
        bool, typer.Option("--live-sessions/--no-live-sessions", help="Certificates need attendance of live sessions.")
    ] = True,
) -> None:
    """Add a cohort."""
    from onceward_apps.learning import cohorts

    async def work() -> Any:
        async with acting(organization) as tx:
            new = cohorts.NewCohort(
                name=name,
                starts_at=datetime.fromisoformat(starts),
                ends_at=datetime.fromisoformat(ends),
                max_capacity=capacity,
                price=price,
                currency=currency.upper(),
                has_live_sessions=live_sessions,
            )
            row = await cohorts.create_cohort(tx, new, actor=ACTOR)
            if open_now:
                await cohorts.set_status(tx, row["id"], "OPEN", actor=ACTOR)
            return row

    say(f"cohort {name} has the id {run(work())['id']}")


@group.command("cohorts")
def list_cohorts(organization: OrganizationOption, as_json: JsonOption = False) -> None:
    """List the cohorts of an organization, with places, waitlist and NPS."""
    from onceward_apps.learning.store import views

    async def work() -> list[dict[str, Any]]:
        async with acting(organization) as tx:
            return [dict(row) for row in await views.cohorts(tx, tx.organization)]

    columns = ("id", "name", "status", "starts_at", "max_capacity", "sold", "held", "waiting", "nps_score")
    listing(run(work()), columns=columns, as_json=as_json)


@group.command("status")
def set_status(
    cohort: CohortArgument,
    status: Annotated[str, typer.Argument(help="OPEN, CONFIRMED, IN_PROGRESS, COMPLETED or CANCELLED.")],
    organization: OrganizationOption,
    reason: Annotated[str | None, typer.Option("--reason", help="Reason; students read it if you cancel.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Change the status of a cohort. CANCELLED refunds every student."""
    from onceward_apps.learning import cohorts

    if status.upper() == "CANCELLED" and not yes:
        typer.confirm(f"Cancel cohort {cohort} and refund all its students?", abort=True)

    async def work() -> Any:
        async with acting(organization) as tx:
            return await cohorts.set_status(tx, cohort, status.upper(), actor=ACTOR, reason=reason)

    say(f"cohort {cohort} is {run(work())['status']}")


@group.command("students")
def list_students(cohort: CohortArgument, organization: OrganizationOption, as_json: JsonOption = False) -> None:
    """List the newest enrolments of a cohort."""
    from onceward_apps.learning.store import curriculum

    async def work() -> list[dict[str, Any]]:
        async with acting(organization) as tx:
            return [dict(row) for row in await curriculum.enrollments(tx, cohort, 500, None)]

    columns = ("id", "name", "status", "enrolled_at", "amount_paid", "currency", "access_expires_at", "nps_category")
    listing(run(work()), columns=columns, as_json=as_json)


@group.command("standing")
def show_standing(enrollment: EnrollmentArgument, organization: OrganizationOption) -> None:
    """Show what a student has achieved and what is missing for the certificate, as JSON."""
    from onceward_apps.learning import certificates

    async def work() -> dict[str, Any]:
        async with acting(organization) as tx:
            found = await certificates.standing(tx, enrollment)
            return {
                "completion_percentage": found.completion,
                "attendance_percentage": found.attendance,
                "missing_for_certificate": list(found.missing()),
            }

    document(run(work()))


@group.command("attendance")
def correct_attendance(
    enrollment: EnrollmentArgument,
    session: Annotated[UUID, typer.Argument(metavar="SESSION", help="Id of the session.")],
    organization: OrganizationOption,
    reason: Annotated[str, typer.Option("--reason", help="Reason, written to the audit log.")],
    absent: Annotated[bool, typer.Option("--absent", help="The student was absent; without it, present.")] = False,
) -> None:
    """Correct the attendance of a student in one session."""
    from onceward_apps.learning import attendance

    async def work() -> Any:
        async with acting(organization) as tx:
            return await attendance.correct(tx, enrollment, session, attended=not absent, reason=reason, actor=ACTOR)

    found = run(work()).attendance
    say(f"the attendance is now {'unknown' if found is None else f'{found:.0f} %'}")


@group.command("revoke-certificate")
def revoke_certificate(
    enrollment: EnrollmentArgument,
    organization: OrganizationOption,
    reason: Annotated[str, typer.Option("--reason", help="Reason, written to the audit log.")],
) -> None:
    """Revoke the certificate of a student. The verify page then says that it is not valid."""
    from onceward_apps.learning import certificates

    async def work() -> bool:
        async with acting(organization) as tx:
            revoked = await certificates.revoke_certificate(tx, enrollment, reason=reason)
            if revoked:
                details = {"entity_type": "Enrollment", "entity_id": enrollment, "reason": reason}
                await tx.audit("certificate_revoked", **details, actor=ACTOR)
            return revoked

    if not run(work()):
        raise CommandFailed(f"enrolment {enrollment} has no valid certificate")
    say("the certificate is revoked")


@group.command("reissue-certificate")
def reissue_certificate(
    enrollment: EnrollmentArgument,
    organization: OrganizationOption,
    reason: Annotated[str, typer.Option("--reason", help="Reason, written to the audit log.")],
) -> None:
    """Issue a certificate again with the student's corrected name. The older one is not valid any more."""
    from onceward_apps.learning import certificates

    async def work() -> str:
        async with acting(organization) as tx:
            return await certificates.reissue(tx, enrollment, reason=reason, actor=ACTOR)

    say(f"the new certificate is {run(work())}")


@group.command("domain")
def set_domain(
    organization: OrganizationOption,
    domain: Annotated[
        str, typer.Argument(help="The domain of the school, such as learn.example.org; - takes it away.")
    ],
) -> None:
    """Give a school its own domain. Its pages are served there, and its mails link to it."""
    from onceward_apps.learning import schools

    async def work() -> None:
        async with acting(organization) as tx:
            await schools.set_domain(tx, None if domain == "-" else domain, actor=ACTOR)

    run(work())
    say("the school has no domain of its own" if domain == "-" else f"the school is at https://{domain}/learn")


@group.command("rotate-key")
def rotate_key(organization: OrganizationOption) -> None:
    """Sign links with a new key. Those that were signed before stay valid, for the last ten keys."""
    from onceward_apps.learning.store import keys

    async def work() -> int:
        async with acting(organization) as tx:
            return await keys.rotate_signing_key(tx, actor=ACTOR)

    say(f"a new key signs links now; {run(work())} keys are valid")


@group.command("rotate-badge-key")
def rotate_badge_key(organization: OrganizationOption) -> None:
    """Sign badges with a new key. The older keys stay published, so that downloaded badges can still be verified."""
    from onceward_apps.learning import open_badges
    from onceward_apps.learning.store import keys

    async def work() -> int:
        made = open_badges.new_key()
        async with acting(organization) as tx:
            return await keys.rotate_badge_key(tx, made, actor=ACTOR)

    say(f"a new key signs badges now; {run(work())} keys are published")
