"""Pages of the clinic in the dashboard: the day, one appointment, and the inbox of unanswered messages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from onceward import Tx
from onceward.money import format_amount
from onceward.trust import Identity
from onceward.web import ANYTHING, NOTHING
from onceward.web.dashboard import Action, ActionRefused, Done, Missing, Page, Pages, Section, Site, View, back
from onceward_apps.clinic import bookings, correspondence, paying
from onceward_apps.clinic.errors import ClinicError
from onceward_apps.clinic.model import OPEN
from onceward_apps.clinic.store import conversations, views

PATH = "/dashboard/clinic"


async def load_day(view: View) -> dict[str, Any]:
    """Load the appointments of a day."""
    if view.organization is None:
        return {"title": "Clinic", "choose": True}
    today = await views.today(view.conn, view.organization)
    on = _date(view.text("on")) or today
    return {
        "title": "Clinic",
        "choose": False,
        "on": on,
        "is_today": on == today,
        "before": on - timedelta(days=1),
        "after": on + timedelta(days=1),
        "appointments": [
            {**row, "amount": _money(row["price"], row["currency"]) if row["price"] else None}
            for row in await views.day(view.conn, view.organization, on)
        ],
        "unanswered": await views.counts(view.conn, view.organization),
    }


async def load_appointment(view: View) -> dict[str, Any]:
    """Load one appointment with everything that happened to it."""
    if view.organization is None:
        raise Missing("choose a clinic to see its appointments")
    row = await views.appointment(view.conn, view.organization, _id(view.text("id")))
    if row is None:
        raise Missing(f"there is no appointment {view.text('id')}")
    for payment in row["payments"]:
        payment["money"] = _money(payment["received"] or payment["amount"], payment["currency"])
        payment["refunded_money"] = _money(payment["refunded"] or None, payment["currency"])
    for refund in row["refunds"]:
        refund["money"] = _money(refund["amount"], refund["currency"])
    return {
        "title": "Appointment",
        "crumbs": ("Clinic", PATH),
        "appointment": row,
        "local_start": f"{row['starts_at'].astimezone(ZoneInfo(row['timezone'])):%Y-%m-%d %H:%M}",
        "price": _money(row["price"] or None, row["currency"]),
        "is_open": row["status"] in OPEN,
        "present": [each for each in row["participants"] if each["left_at"] is None],
        "can_pay": row["price"] > 0 and row["payment_status"] in ("unpaid", "pending", "failed"),
        "can_refund": row["payment_status"] in ("paid", "partially_refunded", "review"),
    }


async def load_inbox(view: View) -> dict[str, Any]:
    """Load the messages that wait for an answer."""
    messages = (
        [] if view.organization is None else await conversations.unanswered(view.conn, view.organization, limit=200)
    )
    return {
        "title": "Unanswered messages",
        "crumbs": ("Clinic", PATH),
        "choose": view.organization is None,
        "messages": [dict(row) for row in messages],
    }


def _money(amount: int | None, currency: str | None) -> str | None:
    return None if amount is None or currency is None else format_amount(amount, currency, "en")


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise Missing(f"{text!r} is not a day: write it as 2026-11-20") from None


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Missing(f"{text!r} is not the id of an appointment: ids are UUIDs") from None


async def _confirm(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    return await _act(site, identity, form, "confirm")


async def _no_show(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    return await _act(site, identity, form, "no_show")


async def _cancel(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    return await _act(site, identity, form, "cancel")


async def _room(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    return await _act(site, identity, form, "room")


async def _link(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    return await _act(site, identity, form, "link")


async def _refund(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    return await _act(site, identity, form, "refund")


async def _act(site: Site, identity: Identity, form: Mapping[str, str], action: str) -> Done:
    id = _id(form.get("appointment", ""))
    async with site.engine.transaction(organization=_clinic(identity)) as tx:
        try:
            text = await _do(tx, id, action, identity.actor)
        except ClinicError as error:
            raise ActionRefused(str(error)) from None
    return Done(f"{PATH}/appointment?id={id}", text)


async def _do(tx: Tx, id: UUID, action: str, actor: str) -> str:
    match action:
        case "confirm" | "no_show":
            row = await bookings.demand(tx, id, action, actor=actor)
            return f"The appointment is {row['status'].replace('_', ' ')}."
        case "cancel":
            row = await bookings.cancel(tx, id, by="clinic", reason="cancelled by the clinic", actor=actor)
            return f"The appointment is cancelled; its payment is {row['payment_status'].replace('_', ' ')}."
        case "room":
            await bookings.request_room(tx, id)
            return "The room is being created."
        case "link":
            await paying.request_link(tx, id)
            return "The patient gets a payment link."
        case _:
            await paying.refund(tx, id, amount=None, reason="dashboard", key=None, actor=actor)
            return "The refund is requested."


async def _answer(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    given = form.get("message", "")
    if not given.isdigit():
        raise ActionRefused("choose a message to answer")
    text = form.get(f"text-{given}", "").strip()[:1600]
    async with site.engine.transaction(organization=_clinic(identity)) as tx:
        try:
            await correspondence.answer(tx, int(given), text or None, actor=identity.actor)
        except ClinicError as error:
            raise ActionRefused(str(error)) from None
    return Done(back(form, f"{PATH}/inbox"), "The answer is queued." if text else "The message is closed.")


async def _reference(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    """Save the clinic's own number of a patient, by which other systems know the patient."""
    id = _id(form.get("appointment", ""))
    reference = form.get("reference", "").strip()[:100]
    if not reference:
        raise ActionRefused("write the reference of the patient")
    async with site.engine.transaction(organization=_clinic(identity)) as tx:
        try:
            row = await bookings.appointment(tx, id)
            known = await bookings.patient(tx, row["patient_id"])
            data = bookings.PatientData(name=known["name"], reference=reference)
            await bookings.save_patient(tx, known["id"], data, actor=identity.actor)
        except ClinicError as error:
            raise ActionRefused(str(error)) from None
    return Done(f"{PATH}/appointment?id={id}", "The reference is saved.")


def _clinic(identity: Identity) -> UUID:
    if identity.organization is None:
        raise ActionRefused("choose a clinic first")
    return identity.organization


PAGES = Pages(
    pages=(
        Page(name="clinic", path=PATH, title="Clinic", section="clinic", load=load_day, every_s=2.0),
        Page(
            name="clinic_appointment",
            path=f"{PATH}/appointment",
            title="Appointment",
            section="clinic",
            load=load_appointment,
            every_s=2.0,
        ),
        Page(
            name="clinic_inbox",
            path=f"{PATH}/inbox",
            title="Unanswered messages",
            section="clinic",
            load=load_inbox,
            every_s=5.0,
        ),
    ),
    actions=(
        Action(path=f"{PATH}/confirm", causes=("mail", "call"), run=_confirm),
        Action(path=f"{PATH}/no-show", causes=("mail", "call"), run=_no_show),
        Action(path=f"{PATH}/cancel", causes=ANYTHING, run=_cancel),
        Action(path=f"{PATH}/room", causes=("mail", "call"), run=_room),
        Action(path=f"{PATH}/payment-link", causes=("mail", "call"), run=_link),
        Action(path=f"{PATH}/refund", causes=ANYTHING, run=_refund),
        Action(path=f"{PATH}/answer", causes=("mail",), run=_answer),
        Action(path=f"{PATH}/reference", causes=NOTHING, run=_reference),
    ),
    sections=(Section("clinic", "Clinic", PATH, "c", "clinic.appointments"),),
    templates=(Path(__file__).parent,),
)
