"""What the staff does on the desk: book by doctor, write to a patient, read the conversation beside the appointment."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onceward_apps.clinic import bookings, correspondence
from onceward_apps.clinic.errors import NotAllowed
from tests.clinic.practice import ACTOR, Practice
from tests.clinic.test_http import URL, Site, site

__all__ = ["site"]
DESK = "/dashboard/clinic"


async def press(site: Site, path: str, **given: str) -> str:
    """Press a button of the desk, and return the page that says what it would do."""
    status, page = await site.call("POST", f"{DESK}/{path}", data={"step": "try", **given})
    assert status < 500, page
    await site.call("POST", f"{DESK}/{path}", data={"step": "run", **given})
    return re.sub(r"\s+", " ", page)


@pytest.mark.acceptance("001-H desk")
async def test_the_staff_books_moves_and_undoes_for_a_patient(site: Site) -> None:
    assert "Dr Lee is added" in await press(site, "doctors/do/add_doctor", name="Dr Lee")
    assert "Ann Tan is added" in await press(site, "patients/do/add_patient", name="Ann Tan", whatsapp="+6591234567")
    patient = str(await site.db.fetchval("select id from clinic.patients"))
    visit = {"ids": patient, "starts_at": "2031-05-01T09:00", "duration_minutes": "30"}
    assert "There is no doctor Dr No. The clinic" in await press(site, "patients/do/book", **visit, doctor="Dr No")
    assert "is booked" in await press(site, "patients/do/book", **visit, doctor="Dr Lee")
    row = await site.db.fetchrow("select id, doctor_id from clinic.appointments")
    assert "the doctor has an appointment at 2031-05-01" in await press(
        site, "patients/do/book", **{**visit, "starts_at": "2031-05-01T09:15"}, doctor="Dr Lee"
    )
    _, listed = await site.call("GET", f"{DESK}/appointments?doctor={row['doctor_id']}")
    assert "Ann Tan" in listed
    _, other = await site.call("GET", f"{DESK}/appointments?doctor={row['id']}")
    assert "Ann Tan" not in other
    ids = str(row["id"])
    assert "on its way over WhatsApp" in await press(site, "appointments/do/write", ids=ids, text="Come fasting.")
    assert "is cancelled" in await press(site, "appointments/do/cancel", ids=ids, reason="storm")
    assert "stands again" in await press(site, "appointments/do/restore", ids=ids)
    _, page = await site.call("GET", f"{DESK}/appointments/row/{ids}")
    for words in ("We wrote: Come fasting.", "The cancellation was undone", "Dr Lee", "No video room"):
        assert words in page, words
    _, home = await site.call("GET", DESK)
    assert "Cancelled by patients" in home


@pytest.mark.acceptance("001-H desk")
async def test_a_doctor_is_booked_once_by_two_at_the_same_time(practice: Practice) -> None:
    starts = practice.clock.at + timedelta(days=2)
    patients = [await practice.patient(f"P{n}", whatsapp=f"+659123450{n}") for n in range(3)]

    async def book(patient: Any, minutes: int) -> str:
        try:
            async with practice.acting() as tx:
                at = starts + timedelta(minutes=minutes)
                await bookings.create(tx, patient, at, duration_minutes=30, doctor="Dr Lee", actor=ACTOR)
        except NotAllowed as error:
            return str(error)
        return "booked"

    async with practice.acting() as tx:
        await bookings.create(tx, patients[0], starts - timedelta(hours=1), doctor="Dr Lee", actor=ACTOR)
    said = await asyncio.gather(book(patients[1], 0), book(patients[2], 15))
    assert sorted(said)[0] == "booked"
    assert "the doctor has an appointment" in sorted(said)[1]
    assert await book(patients[2], 45) == "booked", "right after the other, or 15 minutes later"


async def test_the_same_text_twice_is_one_message(practice: Practice) -> None:
    appointment = await practice.appointment()
    async with practice.acting() as tx:
        await correspondence.write(tx, appointment, "Come fasting.", actor=ACTOR)
        with pytest.raises(NotAllowed, match="less than a minute ago"):
            await correspondence.write(tx, appointment, "Come fasting.", actor=ACTOR)
        await correspondence.write(tx, appointment, "And bring your card.", actor=ACTOR)
    await practice.clock.advance(minutes=2)
    async with practice.acting() as tx:
        await correspondence.write(tx, appointment, "Come fasting.", actor=ACTOR)
    nobody = await practice.patient("Ben", reference="b")
    other = await practice.appointment(nobody)
    async with practice.acting() as tx:
        with pytest.raises(NotAllowed, match="no number and no address"):
            await correspondence.write(tx, other, "Hello", actor=ACTOR)


async def test_the_api_books_by_the_name_of_the_doctor(site: Site) -> None:
    patient = (await site.ok("POST", f"{URL}/patients", json={"name": "Ann", "reference": "1"}))["id"]
    starts = datetime(2031, 5, 1, 9, tzinfo=UTC)
    first = {"patient_id": patient, "starts_at": starts.isoformat(), "doctor": "Dr Lee"}
    id = (await site.ok("POST", f"{URL}/appointments", json=first))["id"]
    again = {**first, "id": id}
    assert (await site.ok("POST", f"{URL}/appointments", json=again))["id"] == id, "the same id is one appointment"
    status, problem = await site.call(
        "POST", f"{URL}/appointments", json={**first, "starts_at": (starts + timedelta(minutes=10)).isoformat()}
    )
    assert (status, "the doctor has an appointment" in problem["detail"]) == (409, True)
