"""Work of every handler, job and schedule of the clinic, which tests crash and freeze at every gate.

Each function creates the work and returns; draining the queues does it. `observe` returns what must be the same whatever
happens in between, `reset` forgets everything.
"""

from __future__ import annotations

from typing import Any

import asyncpg

from onceward.integrations.stripe.simulator_objects import Books
from onceward_apps.clinic import bookings, payments
from tests.clinic.practice import ACTOR, PHONE, Practice

START = 1_794_830_400.0
TABLES = """
truncate clinic.appointments, clinic.appointment_history, onceward.payments, onceward.payment_journals, clinic.inbound_messages,
    clinic.replies, clinic.outgoing, clinic.contacts, clinic.rooms, clinic.meetings, clinic.room_participants,
    clinic.recordings, clinic.patients, onceward.messages, onceward.jobs, onceward.work, onceward.attempts, onceward.claims,
    onceward.workers, onceward.webhook_events, onceward.published, onceward.recipients, onceward.notices,
    onceward.unique_keys, onceward.runs, onceward.run_items cascade
"""
# WhatsApp and Twilio have no idempotency keys: a crash during a send leaves the message `unknown`, and it is never sent again.
STATE = """
select 'appointment ' || status || ' ' || payment_status || coalesce(' ' || left(room_url, 8), '') from clinic.appointments
union all select 'payment ' || status || ' ' || received || ' ' || refunded || coalesce(' ' || decision, '') from onceward.payments
union all select 'refund ' || amount || ' ' || status from onceward.payment_refunds
union all select 'dispute ' || status || ' ' || taken from onceward.payment_disputes
union all select 'journal ' || kind || ' ' || cash from onceward.payment_journals
union all select 'inbound ' || outcome from clinic.inbound_messages
union all select 'reply ' || count(*) from clinic.replies
union all select 'message ' || template || ' ' || channel || ' ' || replace(status, 'unknown', 'success') from onceward.messages
union all select 'outgoing ' || kind from clinic.outgoing
union all select 'meeting ' || meeting_id || ' ' || (ended_at is not null) from clinic.meetings
union all select 'participant ' || session_id || ' ' || (left_at is not null) from clinic.room_participants
union all select 'recording ' || recording_id || ' ' || status from clinic.recordings
union all select 'history ' || to_status || ' ' || trigger from clinic.appointment_history
union all select 'published ' || type from onceward.published
union all select 'notice ' || type from onceward.notices
union all select 'opted out' from clinic.contacts where opted_out_at is not null
union all select 'run ' || schedule || ' ' || status from onceward.runs
union all select 'event ' || type || ' ' || status from onceward.webhook_events
union all select 'dead ' || task || ' ' || dead_reason from onceward.work where dead_reason is not null
order by 1
"""


async def observe(practice: Practice) -> list[str]:
    """Return what is stored, and what the providers were asked for, each key once."""
    stripe, daily = practice.stripe.books, practice.daily
    texts = [(each["to"], str(each.get("text") or each.get("template"))) for each in practice.whatsapp.messages]
    outside = [
        f"Stripe: {len(stripe.refunds)} refunds, {len(stripe.sessions)} sessions",
        f"Daily: {len(daily.rooms)} rooms, {len(daily.recordings)} recordings",
        f"messages sent twice: {len(texts) - len(set(texts))}",
    ]
    return [*(row[0] for row in await practice.db.fetch(STATE)), *outside]


async def reset(practice: Practice) -> None:
    for _ in range(20):
        try:
            await practice.db.execute(TABLES)
        except asyncpg.DeadlockDetectedError:
            continue
        break
    else:
        raise AssertionError("the tables could not be emptied: each try ended in a deadlock")
    practice.stripe.books = Books()
    practice.stripe.forget_keys()
    for kept in (practice.daily.rooms, practice.daily.recordings, practice.daily.registered):
        kept.clear()
    practice.whatsapp.messages.clear()
    practice.twilio.messages.clear()


# -- Stripe ------------------------------------------------------------------------------------------------------------


async def paid(practice: Practice) -> None:
    practice.stripe.pay(await practice.link(await practice.appointment(price=100)))
    await practice.post_stripe()


async def paid_while_cancelled(practice: Practice) -> None:
    """A payment that arrives after its appointment was cancelled goes back."""
    appointment = await practice.appointment(price=100)
    practice.stripe.pay(await practice.link(appointment))
    async with practice.acting() as tx:
        await bookings.cancel(tx, appointment, by="clinic", reason="", actor=ACTOR)
    await practice.post_stripe()


async def paid_and_cancelled(practice: Practice) -> None:
    """A refund by policy and the end of a room, both through jobs."""
    appointment = await practice.appointment(price=100, room=True)
    await practice.pay(appointment)
    async with practice.acting() as tx:
        await bookings.cancel(tx, appointment, by="clinic", reason="", actor=ACTOR)


async def declined_and_refunded(practice: Practice) -> None:
    """A card is declined, another one pays, and somebody refunds a part in Stripe's dashboard."""
    session = await practice.link(await practice.appointment(price=100))
    practice.stripe.decline(session)
    intent = practice.stripe.pay(session)["payment_intent"]
    stripe = await practice.app.services.stripe(None)
    await stripe.create_refund(key="by hand", payment_intent=intent, amount_minor=30)
    await practice.post_stripe()


async def refund_returned(practice: Practice) -> None:
    """The bank returns a refund of a cancelled appointment."""
    await paid_and_cancelled(practice)
    await practice.deliver_stripe()
    [refund] = practice.stripe.books.refunds
    practice.stripe.move_refund(refund, "failed")
    await practice.post_stripe()


async def refund_ended_and_disputed(practice: Practice) -> None:
    """The bank ends a refund; another bank takes a payment back."""
    practice.stripe.books.next_refund_statuses.append("pending")
    await paid_and_cancelled(practice)
    await practice.deliver_stripe()
    intent = await practice.pay(await practice.appointment(await practice.patient("Ben"), price=100))
    [refund] = practice.stripe.books.refunds
    practice.stripe.move_refund(refund, "succeeded")
    dispute = practice.stripe.open_dispute(intent)["id"]
    practice.stripe.close_dispute(dispute, won=False)
    await practice.post_stripe()


async def link_requested(practice: Practice) -> None:
    appointment = await practice.appointment(price=100)
    async with practice.acting() as tx:
        await payments.request_link(tx, appointment)


# -- messages ----------------------------------------------------------------------------------------------------------


async def written(practice: Practice) -> None:
    await practice.appointment()
    await practice.deliver([{"from": PHONE[1:], "id": "wamid.1", "type": "text", "text": {"body": "cancel"}}])


async def texted(practice: Practice) -> None:
    await practice.appointment(await practice.patient(phone=PHONE))
    for sid, body in (("SM1", "confirm"), ("SM2", "Do you have parking?")):
        fields = {"MessageSid": sid, "SmsStatus": "received", "From": PHONE, "To": "+6580000000", "Body": body}
        await practice.inbox.post(fields, source="clinic-twilio")


async def stopped(practice: Practice) -> None:
    await practice.patient()
    await practice.deliver([{"from": PHONE[1:], "id": "wamid.1", "type": "text", "text": {"body": "stop"}}])


async def undelivered(practice: Practice) -> None:
    """A reminder that WhatsApp cannot deliver goes out as a text message."""
    await reminders_due(practice, phone=PHONE, whatsapp=PHONE)
    await practice.drain()
    [sent] = practice.whatsapp.messages
    failed = {"id": sent["id"], "status": "failed", "timestamp": "1", "recipient_id": PHONE[1:]}
    await practice.deliver([], [failed])


# -- Daily -------------------------------------------------------------------------------------------------------------


async def met(practice: Practice) -> None:
    appointment = await practice.appointment(room=True)
    room = (await practice.row(appointment))["room_name"]
    meeting = {"meeting_id": "m", "start_ts": START, "room": room}
    person = {"session_id": "s", "room": room, "joined_at": START, "user_name": "Ann"}
    recording = {"recording_id": "r", "room_name": room, "start_ts": START}
    for type, payload in (
        ("meeting.started", meeting),
        ("participant.joined", person),
        ("recording.started", recording),
        ("recording.error", {"room_name": room, "error_msg": "full", "instance_id": "i"}),
        ("recording.ready-to-download", {**recording, "recording_id": "r2", "duration": 9, "s3_key": "k"}),
        ("participant.left", {**person, "duration": 60}),
        ("meeting.ended", {**meeting, "end_ts": START + 60}),
    ):
        body = {"type": type, "id": f"daily-{type}", "payload": payload}
        assert (await practice.inbox.post(body, source="daily")).status == 200


# -- schedules ---------------------------------------------------------------------------------------------------------


async def reminders_due(practice: Practice, **numbers: Any) -> None:
    await practice.appointment(await practice.patient(**numbers), hours=24.5)
    await practice.clock.advance(hours=1)
    await practice.start("clinic-reminders")


async def callbacks_lost(practice: Practice) -> None:
    """A delivery report and a recording of which no webhook came, and a recording of an erased patient."""
    await reminders_due(practice, phone=PHONE)
    appointment = await practice.appointment(room=True)
    await practice.drain()
    practice.twilio.messages[0]["status"] = "delivered"
    room = (await practice.row(appointment))["room_name"]
    ended = practice.clock.at.timestamp() - 1200
    meeting = {"meeting_id": "m", "start_ts": ended - 600, "end_ts": ended, "room": room}
    await practice.inbox.post({"type": "meeting.ended", "id": "d1", "payload": meeting}, source="daily")
    await practice.drain()
    for name in ("lost", "erased"):
        recording = {"id": name, "room_name": room, "status": "finished", "duration": 9, "s3key": name}
        practice.daily.recordings[name] = {**recording, "start_ts": int(ended)}
    await practice.db.execute(
        "insert into clinic.recordings (organization_id, recording_id, room_name, status) values ($1, 'erased', $2, 'deleting')",
        practice.organization,
        room,
    )
    await practice.clock.advance(minutes=31)
    await practice.start("clinic-lost-callbacks")


async def webhook_switched_off(practice: Practice) -> None:
    await practice.appointment(room=True)
    await practice.drain()
    hook = practice.daily.send_webhooks_to("http://127.0.0.1:9/", secret="c2VjcmV0")
    practice.daily.registered[hook]["state"] = "FAILED"
    await practice.start("clinic-daily-webhooks")


SCENARIOS = (
    paid,
    paid_while_cancelled,
    paid_and_cancelled,
    declined_and_refunded,
    refund_returned,
    refund_ended_and_disputed,
    link_requested,
    written,
    texted,
    stopped,
    undelivered,
    met,
    reminders_due,
    callbacks_lost,
    webhook_switched_off,
)
