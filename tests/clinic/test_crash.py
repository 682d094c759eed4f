"""Crash every handler and schedule at every gate: the result is the same as without a crash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from onceward.testing import crash_test
from onceward_apps.clinic import booking
from tests.clinic.practice import ACTOR, PHONE, Practice

TABLES = """
truncate clinic.appointments, clinic.appointment_history, clinic.payments, clinic.refunds, clinic.inbound_messages,
    clinic.replies, clinic.outgoing, clinic.contacts, clinic.rooms, clinic.meetings, clinic.room_participants,
    clinic.recordings, clinic.patients, onceward.messages, onceward.jobs, onceward.work, onceward.attempts, onceward.claims,
    onceward.webhook_events, onceward.published, onceward.recipients, onceward.notices, onceward.unique_keys cascade
"""
# WhatsApp has no idempotency keys: a crash during a send leaves the message `unknown`, and it is never sent again.
STATE = """
select 'appointment ' || status || ' ' || payment_status from clinic.appointments
union all select 'payment ' || status || ' ' || coalesce(problem, '') from clinic.payments
union all select 'refund ' || amount || ' ' || status from clinic.refunds
union all select 'inbound ' || outcome from clinic.inbound_messages
union all select 'reply ' || count(*) from clinic.replies
union all select 'message ' || template || ' ' || replace(status, 'unknown', 'success') from onceward.messages
union all select 'participant ' || session_id from clinic.room_participants
union all select 'history ' || to_status || ' ' || trigger from clinic.appointment_history
union all select 'published ' || type from onceward.published
order by 1
"""


async def paid_while_cancelled(practice: Practice) -> None:
    appointment = await practice.appointment(price=100)
    async with practice.acting() as tx:
        await booking.cancel(tx, appointment, by="clinic", reason="", actor=ACTOR)
    await post_payment(practice, str(appointment))


async def paid(practice: Practice) -> None:
    await post_payment(practice, str(await practice.appointment(price=100)))


async def post_payment(practice: Practice, appointment: str) -> None:
    found = {
        "id": "pi_1",
        "amount": 100,
        "currency": "sgd",
        "metadata": {"app": "clinic", "appointment_id": appointment},
    }
    payload = {"id": "evt_1", "type": "payment_intent.succeeded", "data": {"object": found}}
    await practice.inbox.post(payload, source="clinic-stripe")


async def written(practice: Practice) -> None:
    await practice.appointment()
    await practice.deliver([{"from": PHONE[1:], "id": "wamid.1", "type": "text", "text": {"body": "cancel"}}])


async def met(practice: Practice) -> None:
    appointment = await practice.appointment(room=True)
    room = (await practice.row(appointment))["room_name"]
    body = {"type": "meeting.started", "id": "d1", "payload": {"meeting_id": "m", "start_ts": 1.0, "room": room}}
    await practice.inbox.post(body, source="daily")
    joined = {"session_id": "s", "room": room, "joined_at": 1.0}
    await practice.inbox.post({"type": "participant.joined", "id": "d2", "payload": joined}, source="daily")


@pytest.mark.slow
@pytest.mark.parametrize("arrange", [paid, paid_while_cancelled, written, met])
async def test_a_crash_at_any_gate_changes_nothing(
    practice: Practice, arrange: Callable[[Practice], Awaitable[None]]
) -> None:
    await practice.sources()

    async def observe() -> list[Any]:
        return [row[0] for row in await practice.db.fetch(STATE)]

    await crash_test(
        practice.engine,
        arrange=lambda: arrange(practice),
        observe=observe,
        reset=lambda: practice.db.execute(TABLES),
    )
