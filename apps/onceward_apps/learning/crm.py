"""The sync to HubSpot: contacts and deals that changed, in batches of at most 100, upserted so that a repeat changes nothing.

The watermark moves only if every record was accepted. A batch in which some records failed (HTTP 207) is a failure: the
next run sends its records again, and an operator is notified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from onceward import Job, Tx
from onceward.integrations.hubspot import CrmRecord, HubSpot
from onceward.money import exponent
from onceward.services import Accepted, NotSet, Refused
from onceward_apps.learning.app import app
from onceward_apps.learning.bookings import again
from onceward_apps.learning.metrics import CRM_RECORDS
from onceward_apps.learning.store import crm as rows

BATCH = 100
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


def deal(enrollment: Any) -> CrmRecord:
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
    """What one run has sent of one kind."""

    processed: int = 0
    failed: int = 0
    reasons: list[str] = field(default_factory=list[str])


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
    failed = contacts.failed + deals.failed
    reason = "; ".join(dict.fromkeys(contacts.reasons + deals.reasons))[:500] or None
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
    return {"success": failed == 0, "contacts": contacts.processed, "deals": deals.processed, "failed": failed}


async def _sync(job: Job, hubspot: HubSpot, organization: UUID, kind: Kind) -> Sent:
    async with job.transaction() as tx:
        # Before the rows are read: what commits later is not in this snapshot, and so belongs to the next run.
        upto, since = await rows.snapshot(tx), await rows.watermark(tx, kind)
    read, shape, id_property = _kinds()[kind]
    sent, after = Sent(), None
    while True:
        async with job.transaction() as tx:
            changed = await read(tx, organization, since, upto, after, BATCH)
        if not changed:
            break
        await _send(hubspot, kind, [shape(row) for row in changed], id_property, sent)
        after = changed[-1]["id"]
    if sent.failed == 0:
        async with job.transaction() as tx:
            await rows.move_watermark(tx, kind, since, upto)
    return sent


def _kinds() -> dict[Kind, tuple[Callable[..., Any], Callable[[Any], CrmRecord], str]]:
    return {
        "contacts": (rows.changed_users, contact, "email"),
        "deals": (rows.changed_enrollments, deal, "enrollment_id"),
    }


async def _send(hubspot: HubSpot, kind: Kind, records: Sequence[CrmRecord], id_property: str, sent: Sent) -> None:
    """Send a batch. Records that HubSpot refuses are counted; anything else that fails makes the job try again."""
    outcome = await hubspot.upsert(kind, records, id_property=id_property)
    match outcome:
        case Accepted():
            failed = 0
        case Refused(reason) if "failed" in outcome.detail or outcome.permanent:
            failed = len(outcome.detail.get("failed", ())) or len(records)
            sent.reasons.append(reason)
        case _:
            raise again(outcome)
    sent.processed += len(records) - failed
    sent.failed += failed
    CRM_RECORDS.labels(kind, "accepted").inc(len(records) - failed)
    CRM_RECORDS.labels(kind, "refused").inc(failed)


async def enqueue(tx: Tx) -> None:
    """Enqueue the sync of the organization of this transaction, unless one is waiting or running."""
    await tx.enqueue(sync_crm.unique(f"crm:{tx.organization}"))
