"""Erase what the inbox stores about a person: the bodies of events that mention them.

A hash of each body stays as evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from onceward.db import Transaction
from onceward.statements import read_statement
from onceward.trust.erase import Eraser, Found, Person

RENAME = read_statement("inbox", "rename_erased_events")


async def blank_attempts(tx: Transaction, _person: Person, found: Sequence[Found], _organization: UUID | None) -> None:
    """Erase the results and errors of the attempts. Replace an event id that contains the person's data by a hash."""
    await tx.execute(
        "update onceward.attempts set result = null, error = null where work_id = any($1)", [each.key for each in found]
    )
    await tx.execute(RENAME, [each.key for each in found if "event_id" in each.columns])


ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="received webhooks",
        table="onceward.webhook_events",
        columns={
            "payload": "json",
            "raw": "body",
            "headers": "json",
            "signature": "text",
            "error": "text",
            "result": "json",
            "event_id": "text",
        },
        values={"payload": "onceward.payload_of(t)"},
        blank={
            "payload": "null",
            "raw": "null",
            "headers": "jsonb_build_object('erased_sha256', encode(sha256(coalesce(t.raw, '')), 'hex'))",
            "signature": "null",
            "error": "case when t.error is not null then 'erased' end",
            "result": "null",
            "event_id": "t.event_id",
            "settles": "t.settles + 1",
        },
        together=True,
        then=blank_attempts,
        # A waiting event still needs its payload. A dead letter is erased and cannot be replayed afterwards.
        waits="exists (select from onceward.work w where w.id = t.seq and w.dead_reason is null)",
        key="t.seq",
    ),
    Eraser(
        name="rejected requests",
        table="onceward.webhook_rejects",
        columns={"ip": "whole"},
        blank={"ip": "null"},
    ),
    Eraser(
        name="side effects of external workers",
        table="onceward.webhook_side_effects",
        columns={"payload": "json", "external_id": "text"},
        blank={"payload": """'{"erased": true}'""", "external_id": "null"},
    ),
    Eraser(
        name="paused sources",
        table="onceward.sources",
        columns={"paused_by": "text"},
        blank={"paused_by": "'erased'"},
    ),
)

UNSEARCHED: dict[str, str] = {
    "onceward.sources.name": "a name given by an operator",
    "onceward.sources.provider": "a closed set",
    "onceward.sources.app": "a name given by code",
    "onceward.sources.secrets": "sealed; cannot be searched",
    "onceward.sources.options": "settings of the source",
    "onceward.sources.public_url": "the address of this server",
    "onceward.webhook_events.provider": "a closed set",
    "onceward.webhook_events.route": "the address that the webhook was posted to, a name given by code",
    "onceward.webhook_transmissions.*": "the sender's ids of transmissions and hashes of bodies",
    "onceward.webhook_events.type": "the sender's name for a kind of event",
    "onceward.webhook_rejects.source": "a name given by an operator",
    "onceward.webhook_rejects.provider": "a closed set",
    "onceward.webhook_rejects.reason": "a closed set",
    "onceward.webhook_counts.*": "counts that have not been collected yet, without content",
    "onceward.webhook_side_effects.provider": "a name given by an operator",
    "onceward.webhook_side_effects.effect_key": "a provider and the id of a source",
    "onceward.webhook_side_effects.event_id": "the sender's id of the event",
    "onceward.unhandled_types.*": "the sender's names for kinds of events",
}
