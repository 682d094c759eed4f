"""Messages from people: one contact per number, replies once, STOP and START, and nothing is guessed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from onceward_apps.clinic import bookings, correspondence
from onceward_apps.clinic.errors import NotAllowed
from onceward_apps.clinic.store import people
from tests.clinic.practice import ACTOR, PHONE, PHONE_NUMBER_ID, Practice

FIVE_SPELLINGS = ("+65 9123 4567", "0065 9123-4567", "(65) 9123.4567", "whatsapp:+6591234567", "91234567")


@pytest.fixture
async def practice(practice: Practice) -> Practice:
    await practice.sources()
    return practice


@pytest.mark.parametrize("spelling", FIVE_SPELLINGS)
async def test_five_spellings_of_a_number_are_one_contact(practice: Practice, spelling: str) -> None:
    patient = await practice.patient(whatsapp=spelling, phone=spelling)
    assert await practice.write("hello") == "unanswered"
    assert await practice.text("hello again") == "unanswered"
    assert await practice.db.fetchval("select count(*) from clinic.contacts") == 1
    assert {row["patient_id"] for row in await practice.db.fetch("select * from clinic.inbound_messages")} == {patient}


@pytest.mark.parametrize(
    ("reply", "status", "answer"), [("Confirm!", "confirmed", "confirmed"), ("CANCEL", "cancelled", "cancelled")]
)
async def test_a_reply_moves_the_appointment_and_is_answered_once(
    practice: Practice, reply: str, status: str, answer: str
) -> None:
    appointment = await practice.appointment()
    assert await practice.write(reply, wamid="wamid.1") == status
    assert (await practice.status(appointment))[0] == status
    for _ in range(2):  # Meta sends it again
        await practice.write(reply, wamid="wamid.1")
    [sent] = practice.whatsapp.messages
    assert answer in sent["text"]["body"]
    assert sent["to"] == PHONE
    row = await practice.db.fetchrow("select * from clinic.replies")
    assert row["event_id"] == "wamid.1"
    assert await practice.db.fetchval("select count(*) from clinic.replies") == 1


async def test_a_button_counts_like_its_word(practice: Practice) -> None:
    appointment = await practice.appointment()
    button = {"type": "button", "button": {"payload": "confirm", "text": "I will be there"}}
    assert await practice.write("", **button) == "confirmed"
    assert (await practice.status(appointment))[0] == "confirmed"


async def test_a_text_message_over_twilio_is_answered_by_text_message(practice: Practice) -> None:
    appointment = await practice.appointment(await practice.patient(phone=PHONE))
    assert await practice.text("confirm", sid="SM1") == "confirmed"
    assert await practice.text("confirm", sid="SM1") == "confirmed"
    assert await practice.status(appointment) == ("confirmed", "not_required")
    [sent] = practice.twilio.messages
    assert sent["to"] == PHONE


async def test_a_family_with_one_number_is_not_guessed(practice: Practice) -> None:
    ann, ben = await practice.patient("Ann"), await practice.patient("Ben")
    first, second = await practice.appointment(ann), await practice.appointment(ben)
    assert await practice.write("confirm") == "ambiguous_appointment"
    assert {(await practice.status(each))[0] for each in (first, second)} == {"scheduled"}
    [waiting] = await practice.db.fetch("select * from clinic.inbound_messages where needs_answer")
    assert waiting["patient_id"] is None


async def test_a_reply_that_quotes_a_reminder_is_about_its_appointment(practice: Practice) -> None:
    ann, ben = await practice.patient("Ann"), await practice.patient("Ben")
    first, second = await practice.appointment(ann, hours=30), await practice.appointment(ben, hours=200)
    await practice.clock.advance(hours=7)
    await practice.run("clinic-reminders")
    await practice.drain()
    [reminder] = practice.whatsapp.messages
    assert await practice.write("confirm", context={"id": reminder["id"]}) == "confirmed"
    assert (await practice.status(first))[0] == "confirmed"
    assert (await practice.status(second))[0] == "scheduled"


async def test_other_messages_are_acknowledged_once_a_day_and_land_in_the_inbox(practice: Practice) -> None:
    await practice.patient()
    for text in ("Do you have parking?", "Hello?", "Anybody there?"):
        assert await practice.write(text) == "unanswered"
    assert len(practice.whatsapp.messages) == 1
    await practice.clock.advance(hours=25)
    await practice.write("Still there?")
    assert len(practice.whatsapp.messages) == 2
    async with practice.acting() as tx:
        waiting = await practice.db.fetch("select id from clinic.inbound_messages where needs_answer order by id")
        await correspondence.answer(tx, waiting[0]["id"], "Yes, behind the house.", actor=ACTOR)
        await correspondence.answer(tx, waiting[1]["id"], None, actor=ACTOR)
        with pytest.raises(NotAllowed, match="waits for no answer"):
            await correspondence.answer(tx, waiting[0]["id"], "again", actor=ACTOR)
    await practice.drain()
    assert practice.whatsapp.messages[-1]["text"]["body"] == "Yes, behind the house."
    assert len(practice.whatsapp.messages) == 3


async def test_two_messages_at_the_same_time_get_one_acknowledgement(practice: Practice) -> None:
    await practice.patient()
    contact = None
    async with practice.acting() as tx:
        contact = await people.contact(tx, PHONE)

    async def claim() -> bool:
        async with practice.acting() as tx:
            return await people.may_acknowledge(tx, contact["id"], timedelta(hours=24))

    assert sorted(await asyncio.gather(*(claim() for _ in range(4)))) == [False, False, False, True]


async def test_stop_ends_messages_and_start_brings_them_back(practice: Practice) -> None:
    appointment = await practice.appointment(hours=30)
    assert await practice.write("STOP") == "opted_out"
    assert "no more messages" in practice.whatsapp.messages[-1]["text"]["body"]
    await practice.clock.advance(hours=7)
    await practice.run("clinic-reminders")
    await practice.drain()
    assert len(practice.whatsapp.messages) == 1
    states = {row["kind"]: (row["state"], row["reason"]) for row in await practice.messages()}
    assert states["reminder-24h"] == ("cancelled", "opted_out")
    assert await practice.write("start") == "opted_in"
    await practice.clock.advance(hours=22, minutes=30)
    await practice.run("clinic-reminders")
    await practice.drain()
    kinds = [row["kind"] for row in await practice.messages() if row["state"] != "cancelled"]
    assert "reminder-1h" in kinds
    assert (await practice.status(appointment))[0] == "scheduled"


async def test_stop_of_a_brazilian_patient_whose_ninth_digit_whatsapp_omits_ends_messages(practice: Practice) -> None:
    patient = await practice.patient(whatsapp="+55 (11) 98765-4321", phone="+5511987654321")
    await practice.appointment(patient, hours=30)
    assert await practice.write("PARAR", sender="551187654321") == "opted_out"
    [contact] = await practice.db.fetch("select number, opted_out_at is not null as out from clinic.contacts")
    assert tuple(contact) == ("+5511987654321", True)
    [record] = await practice.db.fetch("select decision, source, wording from onceward.consents")
    assert tuple(record) == ("opt_out", "reply", "PARAR")
    await practice.clock.advance(hours=7)
    await practice.run("clinic-reminders")
    await practice.drain()
    states = {row["kind"]: (row["state"], row["reason"]) for row in await practice.messages()}
    assert states["reminder-24h"] == ("cancelled", "opted_out")
    assert await practice.write("ajuda", sender="551187654321") == "helped"


async def test_a_reminder_that_would_be_late_is_not_sent(practice: Practice) -> None:
    appointment = await practice.appointment(hours=30)
    await practice.clock.advance(hours=29, minutes=30)
    await practice.run("clinic-reminders")
    expires_at = await practice.db.fetchval(
        "select expires_at from onceward.messages where template = 'clinic.reminder'"
    )
    starts_at = await practice.db.fetchval("select starts_at from clinic.appointments where id = $1", appointment)
    assert expires_at == starts_at
    await practice.clock.advance(hours=4)
    await practice.drain()
    assert [row["state"] for row in await practice.messages()] == ["expired"]
    assert practice.whatsapp.messages == []


async def test_an_unknown_number_is_stored_and_shown(practice: Practice) -> None:
    assert await practice.write("confirm", sender="4915112345678") == "unknown_patient"
    assert await practice.write("hi", sender="12") == "bad_number"
    rows = await practice.db.fetch("select outcome, needs_answer from clinic.inbound_messages order by id")
    assert [tuple(row) for row in rows] == [("unknown_patient", True), ("bad_number", True)]


async def test_a_batch_with_one_bad_item_handles_the_others(practice: Practice) -> None:
    await practice.appointment()
    good = {"from": PHONE[1:], "id": "wamid.good", "type": "text", "text": {"body": "confirm"}}
    bad = {"from": PHONE[1:], "id": "wamid.bad", "type": "text", "text": "not an object"}
    await practice.deliver([bad, good])
    assert await practice.handled("wamid.good") == "confirmed"
    assert await practice.db.fetchval("select status from webhook_events where event_id = 'wamid.bad'") == "dead_letter"


async def test_messages_to_another_number_of_the_account_are_not_ours(practice: Practice) -> None:
    await practice.patient()
    await practice.assign_sender("whatsapp", "999")
    assert await practice.write("hello") == "not_ours"
    assert await practice.db.fetchval("select count(*) from clinic.inbound_messages") == 0
    assert await practice.write("STOP") == "opted_out", "STOP is never dropped"
    assert await practice.db.fetchval("select opted_out_at is not null from clinic.contacts")
    await practice.assign_sender("whatsapp", PHONE_NUMBER_ID)
    assert await practice.write("hello") == "unanswered"


# -- reminders ----------------------------------------------------------------------------------------------------------


async def reminders(practice: Practice) -> list[tuple[str, str]]:
    await practice.run("clinic-reminders")
    return [(row["kind"], row["state"]) for row in await practice.messages()]


async def test_reminders_are_sent_once_in_the_clinics_time(practice: Practice) -> None:
    await practice.appointment(hours=30)
    assert await reminders(practice) == []
    await practice.clock.advance(hours=6)
    assert await reminders(practice) == [("reminder-24h", "queued")]
    assert await reminders(practice) == [("reminder-24h", "queued")]
    await practice.drain()
    [sent] = practice.whatsapp.messages
    parameters = [each["text"] for each in sent["template"]["components"][0]["parameters"]]
    expected = ["Harbour", "Ann Tan", "November 18, 2020", "02:00", "Asia/Singapore"]
    assert parameters == expected  # 18:00 UTC is 02:00 in Singapore
    await practice.clock.advance(hours=23)
    assert (await reminders(practice))[1] == ("reminder-1h", "queued")


async def test_who_books_late_gets_no_reminder_of_the_past(practice: Practice) -> None:
    await practice.appointment(hours=3)
    assert await reminders(practice) == []
    await practice.clock.advance(hours=2)
    assert await reminders(practice) == [("reminder-1h", "queued")]


@pytest.mark.parametrize("change", ["cancel", "reschedule"])
async def test_a_changed_appointment_withdraws_its_reminder(practice: Practice, change: str) -> None:
    appointment = await practice.appointment(hours=30)
    await practice.clock.advance(hours=7)
    await reminders(practice)
    async with practice.acting() as tx:
        if change == "cancel":
            await bookings.cancel(tx, appointment, by="clinic", reason="", actor=ACTOR)
        else:
            await bookings.reschedule(tx, appointment, practice.clock.at + timedelta(hours=25), actor=ACTOR)
    await practice.drain()
    assert practice.whatsapp.messages == []
    await practice.clock.advance(hours=2)
    kinds: list[Any] = await reminders(practice)
    assert kinds[0] == ("reminder-24h", "cancelled")
    assert kinds[1:] == ([] if change == "cancel" else [("reminder-24h", "queued")])
