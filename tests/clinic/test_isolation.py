"""Two clinics see nothing of each other; sources of the platform reach the right one; credentials are per clinic."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from onceward.services import service_settings
from onceward.settings import Settings
from onceward_apps.clinic import bookings
from onceward_apps.clinic.errors import NotFound
from onceward_apps.clinic.store import people, views
from tests.clinic.practice import ACTOR, PHONE, PHONE_NUMBER_ID, Practice

TABLES = ("patients", "contacts", "appointments", "inbound_messages", "rooms", "room_participants")


async def of(practice: Practice, organization: UUID) -> dict[str, int]:
    """The number of rows of a clinic by table, as the clinic itself sees them."""
    async with practice.acting(organization) as tx:
        counts = {table: await tx.fetchval(f"select count(*) from clinic.{table}") for table in TABLES}
        return {**counts, "payments": await tx.fetchval("select count(*) from onceward.payments")}


async def test_two_clinics_with_the_same_patient_are_isolated(practice: Practice) -> None:
    other = await practice.add_organization("hill")
    await practice.sources()
    ours = await practice.appointment(price=100, room=True)
    theirs = await practice.appointment(price=100, organization=other)
    room = (await practice.row(ours))["room_name"]
    await practice.write("hello")
    await practice.pay(ours)
    await practice.video("participant.joined", {"session_id": "s", "room": room, "joined_at": 1.0})
    seen = await of(practice, other)
    assert seen == {**dict.fromkeys((*TABLES, "payments"), 0), "patients": 1, "appointments": 1}
    assert set((await of(practice, practice.organization)).values()) == {1}
    async with practice.acting(other) as tx:
        assert await views.appointment(tx, tx.organization, ours) is None
        with pytest.raises(NotFound):
            await bookings.cancel(tx, ours, by="clinic", reason="", actor=ACTOR)
    # This clinic's source reports the payment of another clinic's appointment: foreign, and nothing of theirs changes.
    session = await practice.link(theirs, organization=other)
    practice.stripe.pay(session)
    await practice.deliver_stripe()
    assert (await practice.status(theirs))[1] == "pending"
    assert await practice.refunds() == []


async def test_a_source_of_the_platform_reaches_the_clinic_that_is_meant(practice: Practice) -> None:
    other = await practice.add_organization("hill")
    for name, provider in (("clinic-stripe", "stripe"), ("daily", "daily")):
        await practice.inbox.add_source(name, provider=provider)
    await practice.inbox.add_source("clinic-whatsapp", provider="whatsapp", options={"verify_token": "t"})
    await practice.inbox.add_source("clinic-twilio", provider="twilio", public_url="https://clinic.example")
    appointment = await practice.appointment(price=100, organization=other)
    await practice.pay(appointment, organization=other)
    assert (await practice.status(appointment))[1] == "paid"
    assert await practice.write("hello") == "not_ours"
    await practice.assign_sender("whatsapp", PHONE_NUMBER_ID, other)
    await practice.assign_sender("twilio", "+6580000000", other)
    async with practice.acting(other) as tx:
        room = await bookings.request_room(tx, appointment)
    assert await practice.write("hello") == "unanswered"
    assert await practice.text("hello") == "unanswered"
    assert await practice.video("participant.joined", {"session_id": "s", "room": room, "joined_at": 1.0}) == "joined"
    assert await practice.video("participant.joined", {"session_id": "s", "room": "x", "joined_at": 1.0}) == (
        "unknown_room"
    )
    seen = await of(practice, other)
    assert (seen["payments"], seen["inbound_messages"], seen["room_participants"]) == (1, 2, 1)
    assert set((await of(practice, practice.organization)).values()) == {0}


async def test_stop_to_a_number_of_nobody_stops_every_clinic_that_knows_the_person(practice: Practice) -> None:
    other = await practice.add_organization("hill")
    await practice.inbox.add_source("clinic-whatsapp", provider="whatsapp", options={"verify_token": "t"})
    for clinic in (practice.organization, other):
        async with practice.acting(clinic) as tx:
            await people.contact(tx, PHONE)
    assert await practice.write("My test result, please") == "not_ours"
    assert await practice.write("STOP") == "opted_out"
    await practice.drain()
    stopped = "select count(*) from clinic.contacts where opted_out_at is not null"
    assert await practice.db.fetchval(stopped) == 2


async def test_stop_reaches_a_person_whom_a_clinic_knows_by_another_form_of_the_number(practice: Practice) -> None:
    """WhatsApp leaves out the ninth digit of a Brazilian number; one clinic has stored it, the other one has not."""
    other = await practice.add_organization("hill")
    await practice.inbox.add_source("clinic-whatsapp", provider="whatsapp", options={"verify_token": "t"})
    for clinic, number in ((practice.organization, "+5511987654321"), (other, "+551187654321")):
        async with practice.acting(clinic) as tx:
            await people.contact(tx, number)
    assert await practice.write("STOP", sender="551187654321") == "opted_out"
    await practice.drain()
    rows = await practice.db.fetch("select number from clinic.contacts where opted_out_at is not null order by 1")
    assert [row["number"] for row in rows] == ["+551187654321", "+5511987654321"]


async def test_what_another_clinic_claims_does_not_touch_a_clinics_own_source(practice: Practice) -> None:
    other = await practice.add_organization("hill")
    await practice.sources()
    await practice.patient(whatsapp=PHONE)
    await practice.assign_sender("whatsapp", PHONE_NUMBER_ID, other)
    assert await practice.write("My test result, please") == "unanswered"
    assert await practice.write("STOP") == "opted_out"
    assert (await of(practice, other))["inbound_messages"] == 0


async def test_a_clinics_own_account_is_used_for_its_calls(practice: Practice) -> None:
    services = practice.app.services
    services.configure(
        Settings(simulators={"daily": practice.daily.url}).using(service_settings("daily", api_key="installation"))
    )

    class Store:
        async def read(self, organization: UUID, names: Sequence[str]) -> dict[str, str]:
            return {"daily.api_key": "own"} if organization == practice.organization else {}

    services.use_secrets(Store())
    assert (await services.daily(practice.organization)).api_key == "own"
    assert (await services.daily(await practice.add_organization("hill"))).api_key == "installation"
    appointment = await practice.appointment(await practice.patient(whatsapp=PHONE), room=True)
    await practice.drain()
    assert (await practice.row(appointment))["room_url"]
