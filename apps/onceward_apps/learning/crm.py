"""The sync to HubSpot: contacts and deals that changed, in batches of at most 100, upserted so that a repeat changes
nothing.

A record that HubSpot refuses is set aside, so that it holds up no other: it is sent again after a day, and when it
changes. Operators are notified. A run keeps its position after each batch, so an interrupted one goes on from there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from onceward import Job, Snooze, Tx
from onceward.integrations.hubspot import CrmRecord, HubSpot
from onceward.money import exponent
from onceward.services import Accepted, NotSet, Refused
from onceward_apps.learning.app import app
from onceward_apps.learning.metrics import CRM_RECORDS
from onceward_apps.learning.retry_policy import again
from onceward_apps.learning.store import crm as rows
from onceward_apps.learning.store.rows import Enrollment

BATCH = 100
BATCHES_PER_RUN = 200
"""After this number of batches the job makes room for others and goes on a second later."""
STAGES = {"ACTIVE": "closedwon", "EXPIRED": "closedwon", "REFUND_PENDING": "closedlost", "REFUNDED": "closedlost"}
"""The deal stage of HubSpot's default pipeline for each status of an enrolment."""

Kind = Literal["contacts", "deals"]


def contact(user: Any) -> CrmRecord:
    """Return a user as HubSpot stores a contact. The first word of the name is the first name."""
    first, _, last = str(user["name"]).strip().partition(" ")
    return CrmRecord(
        user["email"],
        {
            "email": user["email"],
            "firstname": first,
            "lastname": last.strip(),
            "lifecyclestage": "customer" if user["enrollments"] else "lead",
            "total_enrollments": user["enrollments"],
            "last_login_at": _day(user["last_login_at"]),
            "account_created_at": _day(user["created_at"]),
        },
    )


def deal(enrollment: Enrollment) -> CrmRecord:
    """Return an enrolment as HubSpot stores a deal. Amounts are in units, not in cents."""
    amount = Decimal(enrollment["amount_paid"]).scaleb(-exponent(enrollment["currency"]))
    return CrmRecord(
        str(enrollment["id"]),
        {
            "dealname": f"Enrollment: {enrollment['cohort_name']}",
            "amount": str(amount),
            "deal_currency_code": enrollment["currency"],
            "dealstage": STAGES[enrollment["status"]],
            "closedate": _day(enrollment["enrolled_at"]),
            "associated_contact": enrollment["email"],
            "cohort_id": str(enrollment["cohort_id"]),
            "enrollment_id": str(enrollment["id"]),
            "start_date": _day(enrollment["starts_at"]),
            "end_date": _day(enrollment["ends_at"]),
        },
    )


def _day(moment: Any) -> str | None:
    return None if moment is None else moment.isoformat()


@dataclass(slots=True)
class Sent:
    """What one run has sent of one kind. `refused` has the reason for each record that HubSpot refused."""

    processed: int = 0
    refused: dict[UUID, str] = field(default_factory=dict[UUID, str])
    is_complete: bool = True


@app.job(name="learning.sync_crm", outside=True, timeout=600, max_attempts=5)
async def sync_crm(job: Job) -> dict[str, Any]:
    """Tell HubSpot about the users and enrolments of one organization that changed since the last successful run."""
    async with job.transaction() as tx:
        organization = tx.organization
    assert organization is not None
    try:
        hubspot = await app.services.hubspot(organization)
    except NotSet:
        return {"skipped": "HubSpot is not configured"}
    contacts = await _sync(job, hubspot, organization, "contacts")
    deals = await _sync(job, hubspot, organization, "deals")
    failed = len(contacts.refused) + len(deals.refused)
    reason = "; ".join(dict.fromkeys([*contacts.refused.values(), *deals.refused.values()]))[:500] or None
    async with job.transaction() as tx:
        await rows.log_sync(
            tx,
            contacts=contacts.processed,
            deals=deals.processed,
            failed=failed,
            success=failed == 0,
            error=reason,
        )
        if failed:
            details = {"failed": failed, "reason": reason}
            await tx.notify_admins("CRM_SYNC_FAILED", "warn", "HubSpot refused some records", details)
    if not (contacts.is_complete and deals.is_complete):
        raise Snooze(1, "more records to send")
    return {"success": failed == 0, "contacts": contacts.processed, "deals": deals.processed, "failed": failed}


async def _sync(job: Job, hubspot: HubSpot, organization: UUID, kind: Kind) -> Sent:
    read, shape, id_property = KINDS[kind]
    sent = Sent()
    async with job.transaction() as tx:
        # The snapshot comes before the rows: what commits later is not in it, and so belongs to the next run.
        since, upto, after = await rows.resume(tx, kind)
        old = await rows.refused_before(tx, organization, kind, BATCH)
        again_now = await read(tx, organization, upto=upto, only=old) if old else []
    if again_now or old:
        await _send_and_note(job, hubspot, kind, again_now, shape, id_property, sent, gone=old)
    for _ in range(BATCHES_PER_RUN):
        async with job.transaction() as tx:
            changed = await read(tx, organization, since=since, upto=upto, after=after, limit=BATCH)
        if not changed:
            async with job.transaction() as tx:
                await rows.finish(tx, kind, upto)
            return sent
        await _send_and_note(job, hubspot, kind, changed, shape, id_property, sent)
        after = changed[-1]["id"]
        async with job.transaction() as tx:
            await rows.note_position(tx, kind, upto, after)
    sent.is_complete = False
    return sent


Read = Callable[..., Awaitable[list[Any]]]
KINDS: dict[Kind, tuple[Read, Callable[[Any], CrmRecord], str]] = {
    "contacts": (rows.changed_users, contact, "email"),
    "deals": (rows.changed_enrollments, deal, "enrollment_id"),
}


async def _send_and_note(
    job: Job,
    hubspot: HubSpot,
    kind: Kind,
    changed: Sequence[Any],
    shape: Callable[[Any], CrmRecord],
    id_property: str,
    sent: Sent,
    gone: Sequence[UUID] = (),
) -> None:
    """Send a batch and note which of its records HubSpot refused. `gone` are records that may not exist any more."""
    refused = await _send(hubspot, kind, [(row["id"], shape(row)) for row in changed], id_property)
    sent.processed += len(changed) - len(refused)
    sent.refused |= refused
    CRM_RECORDS.labels(kind, "accepted").inc(len(changed) - len(refused))
    CRM_RECORDS.labels(kind, "refused").inc(len(refused))
    async with job.transaction() as tx:
        await rows.note_refused(tx, kind, [*gone, *(row["id"] for row in changed)], refused)


async def _send(
    hubspot: HubSpot, kind: Kind, records: Sequence[tuple[UUID, CrmRecord]], id_property: str
) -> dict[UUID, str]:
    """Send records and return why HubSpot refused some. Anything else that fails makes the job try again.

    If HubSpot refuses a whole batch without naming records, its halves are sent: in the end the guilty ones are alone.
    """
    if not records:
        return {}
    outcome = await hubspot.upsert(kind, [record for _, record in records], id_property=id_property)
    match outcome:
        case Accepted():
            return {}
        case Refused(account=True):
            raise again(outcome)
        case Refused(reason) if outcome.detail.get("failed"):
            return {records[position][0]: reason for position in outcome.detail["failed"] if position < len(records)}
        case Refused(reason, permanent=True) if len(records) == 1:
            return {records[0][0]: reason}
        case Refused(permanent=True):
            middle = len(records) // 2
            first = await _send(hubspot, kind, records[:middle], id_property)
            return first | await _send(hubspot, kind, records[middle:], id_property)
        case _:
            raise again(outcome)


async def enqueue(tx: Tx) -> None:
    """Enqueue the sync of the organization of this transaction, unless one is waiting or running."""
    await tx.enqueue(sync_crm.unique(f"crm:{tx.organization}"))
