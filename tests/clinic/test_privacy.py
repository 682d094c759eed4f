"""Export and erase a patient: everything goes, money and the audit chain stay."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from onceward.payments.due import enqueue_due
from onceward.runtime import FEATURES
from onceward.trust.checks import check_audit_chain
from onceward.trust.erase import ErasureReport, erase
from onceward.trust.export import export
from onceward.trust.secrets import SecretBox
from onceward_apps.clinic import app as clinic
from onceward_apps.clinic import bookings, privacy
from onceward_apps.clinic.errors import NotAllowed
from tests.clinic.practice import ACTOR, PHONE, Practice

ALL = FEATURES.plus(clinic.features())
ERASERS = [eraser for erasers in ALL.load("erasers") for eraser in erasers]
EMAIL = "ann.tan@example.org"
EVERYWHERE = """
select format('select %L, count(*) from %s t where t::text like any($1::text[])', c.oid::regclass, c.oid::regclass)
  from pg_class c where c.relkind = 'r' and c.relnamespace::regnamespace::text in ('onceward', 'clinic')
"""


async def lived(practice: Practice) -> tuple[UUID, UUID]:
    """A patient who paid, wrote, met and was recorded; the appointment is over."""
    await practice.sources()
    patient = await practice.patient("Ann Tan", whatsapp=PHONE, email=EMAIL, reference="MRN-0042-77")
    appointment = await practice.appointment(patient, price=8000, room=True)
    room = (await practice.row(appointment))["room_name"]
    await practice.pay(appointment)
    await practice.write("I have a rash, call +65 9123 4567")
    await practice.write("confirm")
    start = practice.clock.at.timestamp()
    await practice.video("meeting.started", {"meeting_id": "m", "start_ts": start, "room": room})
    joined = {"session_id": "s", "room": room, "joined_at": start, "user_name": "Ann Tan", "user_id": "u-1"}
    await practice.video("participant.joined", joined)
    recording = practice.daily.start_recording(room)
    ready = {"recording_id": recording, "room_name": room, "s3_key": f"k/{room}/1", "duration": 9}
    await practice.video("recording.ready-to-download", ready)
    await practice.video("meeting.ended", {"meeting_id": "m", "start_ts": start, "end_ts": start + 60, "room": room})
    await practice.db.execute(
        "insert into onceward.webhook_side_effects (provider, event_id, payload) values ('node', 'e', $1)",
        {"email": EMAIL},
    )
    await practice.db.execute("update onceward.webhook_side_effects set organization_id = $1", practice.organization)
    await practice.clock.advance(days=3)
    return patient, appointment


async def forget(practice: Practice, patient: UUID) -> ErasureReport:
    async with practice.acting() as tx:
        await privacy.check_erasable(tx, patient)
        names = await privacy.names_of(tx, patient)
    return await erase(practice.db, names, ERASERS, organization=practice.organization, actor=ACTOR, reason="asked")


async def test_an_erased_patient_is_nowhere_and_the_money_stays(practice: Practice) -> None:
    patient, appointment = await lived(practice)
    await forget(practice, patient)
    personal = [f"%{each}%" for each in (PHONE[1:], EMAIL, "Ann Tan", "MRN-0042-77", "rash", "k/clinic")]
    left: dict[str, int] = {}
    for row in await practice.db.fetch(EVERYWHERE):
        found: Any = await practice.db.fetchrow(row[0], personal)
        if found[1]:
            left[found[0]] = found[1]
    assert left == {}
    [payment] = await practice.payments()
    assert (payment["received"], payment["status"], payment["subject_id"]) == (8000, "paid", str(appointment))
    assert await practice.status(appointment) == ("completed", "paid")
    await practice.run("clinic-lost-callbacks")
    await practice.drain()
    assert practice.daily.recordings == {}
    assert await practice.db.fetchval("select status from clinic.recordings") == "deleted"


async def test_the_invariants_and_the_audit_chain_hold_after_an_erasure(practice: Practice) -> None:
    patient, _ = await lived(practice)
    await forget(practice, patient)
    checks = [check for checks in ALL.load("checks") for check in checks]
    checks.append(check_audit_chain(SecretBox(["k" * 32])))
    async with practice.db.transaction(role="engine") as tx:
        failed = {check.name: problems for check in checks if (problems := await check.run(tx.conn))}
    assert failed == {}


async def test_an_export_has_everything(practice: Practice) -> None:
    patient, _ = await lived(practice)
    async with practice.acting() as tx:
        names = await privacy.names_of(tx, patient)
    document = await export(practice.db, names, ERASERS, organization=practice.organization, actor=ACTOR)
    assert {
        "patients",
        "contacts",
        "appointments of patients",
        "payments",
        "texts of patients",
        "stays in video rooms",
        "recordings of rooms",
        "side effects of external workers",
    } <= set(document["data"])
    assert any("event" in name for name in document["data"])


async def test_a_patient_with_an_appointment_ahead_is_not_erased(practice: Practice) -> None:
    patient = await practice.patient()
    appointment = await practice.appointment(patient)
    with pytest.raises(NotAllowed, match=str(appointment)):
        await forget(practice, patient)
    async with practice.acting() as tx:
        await bookings.cancel(tx, appointment, by="clinic", reason="", actor=ACTOR)
    await forget(practice, patient)
    assert await practice.db.fetchval("select name from clinic.patients") == "erased"


async def test_the_open_page_of_an_erased_patient_closes_and_late_money_goes_back(practice: Practice) -> None:
    await practice.sources()
    patient = await practice.patient()
    appointment = await practice.appointment(patient, price=8000)
    session = await practice.link(appointment)
    await practice.clock.advance(days=3)
    async with practice.acting() as tx:
        await bookings.demand(tx, appointment, "no_show", actor=ACTOR)
    practice.stripe.pay(session)  # its webhook comes after the erasure
    await forget(practice, patient)
    await practice.deliver_stripe()
    assert await practice.refunds() == [(8000, "done", "erased")]
    assert (await practice.status(appointment))[1] == "refunded"
    second = await practice.patient()
    other = await practice.appointment(second, price=8000)
    page = await practice.link(other)
    await practice.clock.advance(days=3)
    await forget(practice, second)
    await enqueue_due(practice.db, practice.engine.waker)
    await practice.deliver_stripe()
    row = (await practice.payments())[-1]
    assert practice.stripe.books.sessions[page]["status"] == "expired", dict(row)


async def test_a_number_of_a_family_stays_for_the_others(practice: Practice) -> None:
    ann, ben = await practice.patient("Ann"), await practice.patient("Ben")
    await forget(practice, ann)
    rows = await practice.db.fetch("select id, name, whatsapp from clinic.patients order by name")
    assert [tuple(row)[1:] for row in rows] == [("Ben", PHONE), ("erased", None)]
    assert rows[0]["id"] == ben
    assert ann not in {row["id"] for row in rows}
