"""Yes and no count only as the answer to a question of ours, and a cancellation that costs something is asked about."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from onceward.messages import read_reply
from onceward_apps.clinic import bookings, cancellation_undo, correspondence, payments
from onceward_apps.clinic.app import ClinicSettings
from onceward_apps.clinic.errors import NotAllowed
from onceward_apps.clinic.model import Asked, meaning
from onceward_apps.clinic.replies import ANSWERS
from tests.clinic.practice import ACTOR, Practice

CORPUS = list(csv.DictReader((Path(__file__).parent / "answers.csv").open(encoding="utf-8")))
QUESTIONS: tuple[Asked, ...] = ("nothing", "attendance", "cancellation", "person")


def judged(text: str, asked: Asked) -> str:
    reply = read_reply(text, allowed=ANSWERS)
    if reply is None:
        return "staff"
    match reply:
        case "confirm" | "cancel" | "yes" | "no":
            meant = meaning(asked, reply)
            return "staff" if meant == "unclear" else meant
        case _:
            return reply


@pytest.mark.acceptance("001-H answers")
def test_a_corpus_of_answers_is_judged_as_a_person_would() -> None:
    assert len(CORPUS) >= 60
    assert {row["language"] for row in CORPUS} == {"en", "pt", "de"}
    wrong = [
        (row["text"], asked, judged(row["text"], asked), row[asked])
        for row in CORPUS
        for asked in QUESTIONS
        if judged(row["text"], asked) != row[asked]
    ]
    assert wrong == []


@pytest.fixture
async def practice(practice: Practice) -> Practice:
    await practice.sources()
    return practice


async def reminded(practice: Practice, *, paid: bool = False, **options: Any) -> UUID:
    """Book an appointment for tomorrow, let it be paid, and send its reminder."""
    appointment = await practice.appointment(hours=30, price=8000 if paid else 0, **options)
    if paid:
        await practice.pay(appointment)
    await practice.clock.advance(hours=7)
    await practice.run("clinic-reminders")
    await practice.drain()
    return appointment


def last(practice: Practice) -> str:
    return practice.whatsapp.messages[-1]["text"]["body"]


OUTCOMES = {
    "confirm": {"confirmed"},
    "cancel": {"cancelled"},
    "cancel_now": {"cancelled"},
    "keep": {"kept"},
    "stop": {"opted_out"},
    "help": {"helped"},
    "staff": {"unclear", "unanswered"},
}
LANGUAGES = {"en": "en", "pt": "pt", "de": "en"}
"""The language of our questions to people who write in this one: without German texts they are in the clinic's."""


def sample() -> list[tuple[str, Asked, str, str]]:
    """One answer of each language for each question and each meaning: language, question, text and meaning."""
    found: dict[tuple[str, Asked, str], str] = {}
    for row in reversed(CORPUS):
        found |= {(row["language"], asked, row[asked]): row["text"] for asked in QUESTIONS}
    return [(language, asked, text, meant) for (language, asked, meant), text in found.items()]


@pytest.mark.acceptance("001-H answers")
async def test_answers_of_each_language_after_a_question_of_ours_do_what_a_person_would_do(practice: Practice) -> None:
    cases = sample()
    assert len(cases) > 50
    numbers = [f"+659123{n:04}" for n in range(len(cases))]
    booked: list[UUID] = []
    for (language, asked, *_), number in zip(cases, numbers, strict=True):
        patient = await practice.patient(f"Ann {number}", whatsapp=number, locale=language)
        is_reminded, costs = asked in ("attendance", "cancellation"), asked == "cancellation"
        row = await practice.appointment(patient, hours=30 if is_reminded else 200, price=8000 if costs else 0)
        booked.append(row)
        if costs:
            await practice.pay(row)
    await practice.clock.advance(hours=7)
    await practice.run("clinic-reminders")
    for (_, asked, *_), row in zip(cases, booked, strict=True):
        if asked == "person":
            async with practice.acting() as tx:
                await correspondence.write(tx, row, "Do you take blood thinners?", actor=ACTOR)
    await practice.drain()
    for (language, asked, *_), number in zip(cases, numbers, strict=True):
        if asked in ("attendance", "cancellation"):
            to = [each for each in practice.whatsapp.messages if each["to"].lstrip("+") == number.lstrip("+")]
            assert to[-1]["template"]["language"]["code"].startswith(LANGUAGES[language])
        if asked == "cancellation":
            assert await practice.write("cancel", sender=number) == "asked_about_fee"
    wrong: list[tuple[str, Asked, str, str, str]] = []
    for (language, asked, text, meant), number in zip(cases, numbers, strict=True):
        outcome = await practice.write(text, sender=number)
        if outcome not in OUTCOMES[meant]:
            wrong.append((language, asked, text, meant, outcome))
    assert wrong == []
    ends = {"confirm": "confirmed", "cancel": "cancelled", "cancel_now": "cancelled"}
    for (_, asked, text, meant), row in zip(cases, booked, strict=True):
        assert (await practice.status(row))[0] == ends.get(meant, "scheduled"), (asked, text)


@pytest.mark.acceptance("001-H answers")
async def test_a_no_to_a_nurse_cancels_nothing(practice: Practice) -> None:
    appointment = await practice.appointment(hours=30, price=8000)
    await practice.pay(appointment)
    assert await practice.write("no") == "unclear", "nothing was asked"
    async with practice.acting() as tx:
        await correspondence.write(tx, appointment, "Do you take blood thinners?", actor=ACTOR)
    await practice.drain()
    for text in ("No", "cancel", "👎"):
        assert await practice.write(text) == "unclear"
    assert await practice.status(appointment) == ("scheduled", "paid")
    assert await practice.db.fetchval("select count(*) from clinic.inbound_messages where needs_answer") == 4


@pytest.mark.acceptance("001-H answers")
async def test_an_answer_is_to_the_newest_message_or_to_the_quoted_one(practice: Practice) -> None:
    appointment = await reminded(practice)
    reminder = practice.whatsapp.messages[-1]["id"]
    await practice.clock.advance(minutes=1)
    async with practice.acting() as tx:
        await correspondence.write(tx, appointment, "Do you take blood thinners?", actor=ACTOR)
    await practice.drain()
    assert await practice.write("yes") == "unclear"
    assert await practice.write("yes", context={"id": "wamid.of-nobody"}) == "unclear"
    assert await practice.write("yes", context={"id": reminder}) == "confirmed"
    thumb = {"type": "reaction", "reaction": {"message_id": reminder, "emoji": "👍"}}
    assert await practice.write("", **thumb) == "already_confirmed"


async def test_an_old_question_and_one_that_came_later_are_not_answered(practice: Practice) -> None:
    appointment = await practice.appointment(hours=80)
    await practice.run("clinic-reminders")
    await practice.clock.advance(hours=57)
    written = int(practice.clock.at.timestamp()) - 60
    await practice.run("clinic-reminders")
    await practice.drain()
    assert len(practice.whatsapp.messages) == 1
    assert await practice.write("no", timestamp=str(written)) == "unclear", "it was written before the reminder"
    assert await practice.write("yes") == "confirmed"
    assert await practice.write("yes") == "already_confirmed"
    assert await practice.write("no") == "unclear", "the question is answered: a change of mind is for the staff"
    assert (await practice.status(appointment))[0] == "confirmed"


async def test_reminders_of_two_appointments_are_not_guessed(practice: Practice) -> None:
    ann, ben = await practice.patient("Ann"), await practice.patient("Ben")
    first, second = await practice.appointment(ann, hours=30), await practice.appointment(ben, hours=30)
    await practice.clock.advance(hours=7)
    await practice.run("clinic-reminders")
    await practice.drain()
    assert await practice.write("no") == "ambiguous_appointment"
    assert {(await practice.status(each))[0] for each in (first, second)} == {"scheduled"}


@pytest.mark.acceptance("001-H answers")
async def test_a_late_cancellation_is_asked_about_once_more(practice: Practice) -> None:
    appointment = await reminded(practice, paid=True)
    assert await practice.write("no") == "asked_about_fee"
    assert "SGD" in last(practice)
    assert "80" in last(practice)
    assert await practice.status(appointment) == ("scheduled", "paid")
    assert await practice.write("no") == "kept"
    assert await practice.status(appointment) == ("scheduled", "paid")
    await practice.clock.advance(minutes=1)
    assert await practice.write("cancel") == "asked_about_fee"
    assert await practice.write("yes") == "cancelled"
    assert await practice.status(appointment) == ("cancelled", "paid")
    assert await practice.refunds() == []
    assert await practice.write("cancel") == "already_cancelled"


async def test_a_cancellation_that_costs_nothing_needs_no_second_question(practice: Practice) -> None:
    appointment = await reminded(practice)
    assert await practice.write("no") == "cancelled"
    other = await practice.appointment(hours=200)
    assert await practice.write("cancel") == "already_cancelled", "a second CANCEL is not about another appointment"
    assert await practice.status(appointment) == ("cancelled", "not_required")
    assert await practice.status(other) == ("scheduled", "not_required")


@pytest.mark.acceptance("001-H answers")
async def test_staff_undo_a_cancellation(practice: Practice) -> None:
    appointment = await practice.appointment(hours=30, price=8000, room=True)
    await practice.pay(appointment)
    await practice.drain()
    room = (await practice.row(appointment))["room_name"]
    assert await practice.write("cancel") == "cancelled"
    await practice.deliver_stripe()
    assert await practice.status(appointment) == ("cancelled", "refunded")
    async with practice.acting() as tx:
        await cancellation_undo.restore(tx, appointment, actor=ACTOR)
    await practice.drain()
    row = await practice.row(appointment)
    assert (row["status"], row["payment_status"], row["cancelled_by"]) == ("scheduled", "refunded", None)
    assert row["room_name"] != room, "the old room is deleted, perhaps only now"
    assert set(practice.daily.rooms) == {row["room_name"]}
    assert "stands" in last(practice)
    async with practice.acting() as tx:
        with pytest.raises(NotAllowed, match="restore is not possible"):
            await cancellation_undo.restore(tx, appointment, actor=ACTOR)
    # The money went back with the cancellation: a new link asks for it, and another payment is one too many.
    await practice.clock.advance(minutes=2)
    await practice.pay(appointment)
    assert (await practice.status(appointment))[1] == "paid"
    async with practice.acting() as tx:
        with pytest.raises(NotAllowed, match="is paid"):
            await payments.request_link(tx, appointment)
    async with practice.acting() as tx:
        await bookings.cancel(tx, appointment, by="clinic", reason="", actor=ACTOR)
    await practice.deliver_stripe()
    await practice.drain()
    assert practice.daily.rooms == {}
    assert [(amount, status) for amount, status, _ in await practice.refunds()] == [(8000, "done")] * 2
    assert await practice.status(appointment) == ("cancelled", "refunded")


async def test_a_part_that_went_back_is_not_all_that_a_second_cancellation_returns(practice: Practice) -> None:
    appointment = await reminded(practice, paid=True)
    practice.app.use_settings(ClinicSettings(late_refund_percent=50))
    assert await practice.write("no") == "asked_about_fee"
    assert await practice.write("yes") == "cancelled"
    await practice.deliver_stripe()
    assert [amount for amount, *_ in await practice.refunds()] == [4000]
    async with practice.acting() as tx:
        await cancellation_undo.restore(tx, appointment, actor=ACTOR)
    async with practice.acting() as tx:
        await bookings.cancel(tx, appointment, by="clinic", reason="", actor=ACTOR)
    await practice.deliver_stripe()
    assert [amount for amount, *_ in await practice.refunds()] == [4000, 4000]


async def test_an_appointment_of_the_past_cannot_be_restored(practice: Practice) -> None:
    appointment = await practice.appointment(hours=30)
    assert await practice.write("cancel") == "cancelled"
    await practice.clock.advance(hours=31)
    async with practice.acting() as tx:
        with pytest.raises(NotAllowed, match="has passed"):
            await cancellation_undo.restore(tx, appointment, actor=ACTOR)
