"""Commands of the clinic: the day, one appointment, cancel, refund, the inbox, and a patient's data."""

from __future__ import annotations

from datetime import date, datetime
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
    features_here,
    listing,
    opened_database,
    run,
    say,
    transaction_for,
)

group = typer.Typer(no_args_is_help=True, help="Appointments of a clinic: payments, messages, video rooms, patients.")
acting = partial(transaction_for, "onceward_apps.clinic:app", refusals="onceward_apps.clinic.errors:ClinicError")
"""Open a transaction for an organization, given by slug or id."""

AppointmentArgument = Annotated[UUID, typer.Argument(metavar="APPOINTMENT", help="Id of the appointment.")]
PatientArgument = Annotated[UUID, typer.Argument(metavar="PATIENT", help="Id of the patient.")]


def register(cli: typer.Typer) -> None:
    from onceward_apps.clinic import booking_commands  # its commands belong to the same group

    assert booking_commands.group is group
    cli.add_typer(group, name="clinic")


@group.command("day")
def day(
    organization: OrganizationOption,
    on: Annotated[datetime | None, typer.Option("--on", formats=["%Y-%m-%d"], help="Day; default: today.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the appointments of a day: state, payment, who is in the room, the last reminder."""
    from onceward_apps.clinic.store import views

    async def work() -> list[dict[str, Any]]:
        async with acting(organization) as tx:
            chosen: date = on.date() if on else await views.today(tx, tx.organization)
            return await views.day(tx, tx.organization, chosen)

    columns = ("local_time", "patient_name", "status", "payment_status", "present", "reminder", "id")
    listing(run(work()), columns=columns, as_json=as_json, empty="no appointments on this day")


@group.command("show")
def show(appointment: AppointmentArgument, organization: OrganizationOption) -> None:
    """Print an appointment with its history, payments, messages, people and recordings."""
    from onceward_apps.clinic.store import views

    async def work() -> dict[str, Any]:
        async with acting(organization) as tx:
            row = await views.appointment(tx, tx.organization, appointment)
        if row is None:
            raise CommandFailed(f"there is no appointment {appointment}")
        return row

    document(run(work()))


@group.command("cancel")
def cancel(
    appointment: AppointmentArgument,
    organization: OrganizationOption,
    reason: Annotated[str, typer.Option("--reason", help="Reason, stored with the appointment.")],
    by_patient: Annotated[
        bool, typer.Option("--by-patient", help="The patient cancels: the refund policy applies.")
    ] = False,
) -> None:
    """Cancel an appointment and refund it by policy."""
    from onceward_apps.clinic import bookings

    async def work() -> Any:
        async with acting(organization) as tx:
            by = "patient" if by_patient else "clinic"
            return await bookings.cancel(tx, appointment, by=by, reason=reason, actor=ACTOR)

    row = run(work())
    say(f"appointment {appointment} is cancelled; its payment is {row['payment_status']}")


@group.command("refund")
def refund(
    appointment: AppointmentArgument,
    organization: OrganizationOption,
    reason: Annotated[str, typer.Option("--reason", help="Reason, stored with the refund.")],
    key: Annotated[str, typer.Option("--key", help="A name for this refund: the same name twice is one refund.")],
    amount: Annotated[int | None, typer.Option("--amount", help="Minor units; default: all that is left.")] = None,
) -> None:
    """Refund a payment of an appointment."""
    from onceward_apps.clinic import payments

    async def work() -> Any:
        async with acting(organization) as tx:
            return await payments.refund(tx, appointment, amount=amount, reason=reason, key=key, actor=ACTOR)

    requested = run(work())
    say(f"refund {requested.id} of {requested.amount} is {requested.status}")


@group.command("inbox")
def inbox(organization: OrganizationOption, as_json: JsonOption = False) -> None:
    """List the messages that wait for an answer."""
    from onceward_apps.clinic.store import conversations

    async def work() -> list[dict[str, Any]]:
        async with acting(organization) as tx:
            return [dict(row) for row in await conversations.unanswered(tx, tx.organization, limit=500)]

    columns = ("id", "received_at", "channel", "patient_name", "outcome", "text")
    listing(run(work()), columns=columns, as_json=as_json, empty="no message waits for an answer")


@group.command("export-patient")
def export_patient(patient: PatientArgument, organization: OrganizationOption) -> None:
    """Print everything that the clinic stores about a patient as one JSON document."""
    from onceward.trust import COMMAND_LINE
    from onceward.trust.export import export
    from onceward_apps.clinic import privacy

    async def work() -> dict[str, Any]:
        async with acting(organization) as tx:
            names, clinic = await privacy.names_of(tx, patient), tx.organization
        async with opened_database() as db:
            return await export(db, names, _erasers(), organization=clinic, actor=COMMAND_LINE)

    document(run(work()))


@group.command("erase-patient")
def erase_patient(
    patient: PatientArgument,
    organization: OrganizationOption,
    reason: Annotated[str, typer.Option("--reason", help="Reason, written to the audit log.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report what would be erased; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Remove everything about a patient. Payments, refunds, states and the audit log stay, without the person."""
    from onceward.trust import COMMAND_LINE
    from onceward.trust.erase import ErasureReport, erase
    from onceward_apps.clinic import privacy

    async def work() -> ErasureReport:
        async with acting(organization) as tx:
            await privacy.check_erasable(tx, patient)
            names, clinic = await privacy.names_of(tx, patient), tx.organization
        async with opened_database() as db:
            return await erase(
                db, names, _erasers(), organization=clinic, actor=COMMAND_LINE, reason=reason, dry_run=dry_run
            )

    if not dry_run and not yes:
        typer.confirm(f"Erase patient {patient}? It cannot be undone.", abort=True)
    report = run(work())
    for each in report.found:
        say(f"{each.name}: {each.rows} rows" + (f", {each.waiting} still needed" if each.waiting else ""))
    say("nothing was changed" if dry_run else f"patient {patient} is erased")


def _erasers() -> list[Any]:
    return [eraser for erasers in features_here().load("erasers") for eraser in erasers]
