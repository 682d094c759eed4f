"""Commands that change patients and appointments: save, book, reschedule, confirm, payment link, video room."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from onceward.cli import ACTOR, CommandFailed, JsonOption, OrganizationOption, listing, run, say
from onceward_apps.clinic.commands import AppointmentArgument, PatientArgument, acting, group

PhoneOption = Annotated[str | None, typer.Option("--phone", help="Number for text messages.")]
WhatsAppOption = Annotated[str | None, typer.Option("--whatsapp", help="Number for WhatsApp messages.")]
EmailOption = Annotated[str | None, typer.Option("--email", help="Mail address.")]
ReferenceOption = Annotated[str | None, typer.Option("--reference", help="The clinic's own number of the patient.")]
LocaleOption = Annotated[str | None, typer.Option("--locale", help="Language of messages, such as en or pt.")]
StartOption = Annotated[str, typer.Option("--starts", help="Start with time zone: 2031-06-21T09:00:00+08:00.")]


@group.command("patients")
def patients(
    organization: OrganizationOption,
    search: Annotated[str | None, typer.Option("--search", help="Part of a name, number or reference.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List patients."""
    from onceward_apps.clinic.store import people

    async def work() -> list[dict[str, Any]]:
        async with acting(organization) as tx:
            return [dict(row) for row in await people.patients(tx, search=search, limit=500)]

    columns = ("id", "name", "reference", "phone", "whatsapp", "email")
    listing(run(work()), columns=columns, as_json=as_json, empty="no patients")


@group.command("save-patient")
def save_patient(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the patient.")],
    organization: OrganizationOption,
    id: Annotated[UUID | None, typer.Option("--id", help="Change this patient; default: create one.")] = None,
    phone: PhoneOption = None,
    whatsapp: WhatsAppOption = None,
    email: EmailOption = None,
    reference: ReferenceOption = None,
    locale: LocaleOption = None,
) -> None:
    """Create a patient, or change one. What is not given keeps its value."""
    from onceward_apps.clinic import bookings

    data = bookings.PatientData(
        name=name, reference=reference, phone=phone, whatsapp=whatsapp, email=email, locale=locale
    )

    async def work() -> Any:
        async with acting(organization) as tx:
            if id is not None:
                await bookings.patient(tx, id)
            return await bookings.save_patient(tx, id, data, actor=ACTOR)

    say(f"patient {run(work())['id']} is saved")


@group.command("book")
def book(
    patient: PatientArgument,
    organization: OrganizationOption,
    starts: StartOption,
    minutes: Annotated[int, typer.Option("--minutes", min=5, max=1440, help="Duration.")] = 30,
    price: Annotated[int, typer.Option("--price", min=0, help="Price in minor units.")] = 0,
    currency: Annotated[str, typer.Option("--currency", help="Currency of the price.")] = "USD",
    doctor: Annotated[str | None, typer.Option("--doctor", help="Name of the doctor.")] = None,
    id: Annotated[UUID | None, typer.Option("--id", help="Id: the same id twice is one appointment.")] = None,
) -> None:
    """Create an appointment."""
    from onceward_apps.clinic import bookings

    starts_at = _moment(starts)

    async def work() -> Any:
        async with acting(organization) as tx:
            return await bookings.create(
                tx,
                patient,
                starts_at,
                duration_minutes=minutes,
                price=price,
                currency=currency,
                doctor=doctor,
                id=id,
                actor=ACTOR,
            )

    row = run(work())
    say(f"appointment {row['id']} is {row['status']}; its payment is {row['payment_status']}")


@group.command("reschedule")
def reschedule(
    appointment: AppointmentArgument,
    organization: OrganizationOption,
    starts: StartOption,
    minutes: Annotated[int | None, typer.Option("--minutes", min=5, max=1440, help="New duration.")] = None,
) -> None:
    """Move an appointment. Reminders of the old time are withdrawn."""
    from onceward_apps.clinic import bookings

    starts_at = _moment(starts)

    async def work() -> Any:
        async with acting(organization) as tx:
            return await bookings.reschedule(tx, appointment, starts_at, duration_minutes=minutes, actor=ACTOR)

    say(f"appointment {appointment} starts at {run(work())['starts_at'].isoformat()}")


@group.command("confirm")
def confirm(appointment: AppointmentArgument, organization: OrganizationOption) -> None:
    """Confirm an appointment."""
    from onceward_apps.clinic import bookings

    async def work() -> Any:
        async with acting(organization) as tx:
            return await bookings.demand(tx, appointment, "confirm", actor=ACTOR)

    say(f"appointment {appointment} is {run(work())['status']}")


@group.command("payment-link")
def payment_link(appointment: AppointmentArgument, organization: OrganizationOption) -> None:
    """Open a payment page and send its link to the patient. A worker does it."""
    from onceward_apps.clinic import payments

    async def work() -> int:
        async with acting(organization) as tx:
            return await payments.request_link(tx, appointment)

    say(f"payment link {run(work())} of appointment {appointment} is requested")


@group.command("room")
def room(appointment: AppointmentArgument, organization: OrganizationOption) -> None:
    """Create the video room of an appointment. A worker does it."""
    from onceward_apps.clinic import bookings

    async def work() -> str:
        async with acting(organization) as tx:
            return await bookings.request_room(tx, appointment)

    say(f"room {run(work())} of appointment {appointment} is requested")


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise CommandFailed(f"--starts {text!r} is not a time with a time zone: write it as 2031-06-21T09:00:00+08:00")
    return moment
