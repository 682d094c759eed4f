"""Many refunds at once: a list of payments is refunded at a rate, each once, and accounting gets a report.

    running ──all are asked for──▶ asked ──the service has answered every call──▶ done
       └── stop ──▶ stopped

A job takes a few payments, waits, and goes on. A payment that cannot be refunded is listed with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import asyncpg

from onceward.money import Money
from onceward.work import Job, Snooze, Superseded

from . import refunds, reports, store
from .errors import NotFound, NotRefundable, PaymentError
from .job_queue import BATCH, enqueue
from .model import RefundBatch

Row = Any
MOST = 100_000
MOST_PER_MINUTE = 6_000
STEP_S = 5.0
"""How long the job waits after each portion, if the rate is one payment in this time or more."""
LOOK_AGAIN_S = 60.0
ADD = """
insert into onceward.payment_refund_batches (reason, percent, per_minute, requested_by, key, total, caused_by)
values ($1, $2, $3, $4, $5, $6, $7) on conflict (organization_id, key) do nothing returning id
"""
ADD_ITEMS = """
insert into onceward.payment_refund_items (batch_id, number, payment_id)
select $1, n, id from unnest($2::uuid[]) with ordinality i (id, n)
"""
MISSING = (
    "select id from unnest($1::uuid[]) id where not exists (select from onceward.payments p where p.id = id.id) limit 1"
)
BY_KEY = "select id from onceward.payment_refund_batches where organization_id = onceward.organization() and key = $1"
GET = "select * from onceward.payment_refund_batches where id = $1"
NEXT = """
select number, payment_id from onceward.payment_refund_items
 where batch_id = $1 and outcome is null order by number limit 1
"""
ANSWER = """
update onceward.payment_refund_items set refund_id = $3, outcome = $4, why = $5 where batch_id = $1 and number = $2
"""
COUNT = "update onceward.payment_refund_batches set asked = asked + $2, refused = refused + $3 where id = $1"
MOVE = """
update onceward.payment_refund_batches set state = $2, ended_at = case when $2 <> 'asked' then onceward.now() end
 where id = $1 and state in ('running', 'asked') and state <> $2 returning id
"""
REFUNDS = """
select r.status, r.currency, count(*)::int as count, sum(r.amount)::bigint as amount
  from onceward.payment_refund_items i join onceward.payment_refunds r on r.id = i.refund_id
 where i.batch_id = $1 group by 1, 2 order by 1, 2
"""
REFUSED = """
select payment_id, why from onceward.payment_refund_items
 where batch_id = $1 and outcome = 'refused' order by number limit 100
"""


async def add(
    tx: Any,
    payments: Sequence[UUID],
    *,
    reason: str,
    by: str,
    percent: int | None = None,
    per_minute: int = 60,
    key: str | None = None,
) -> RefundBatch:
    """Record a batch and enqueue its job. The same key twice is one batch."""
    ids = list(dict.fromkeys(payments))
    if not 0 < len(ids) <= MOST:
        raise NotRefundable(f"a batch has 1 to {MOST} payments, not {len(ids)}")
    if not 1 <= per_minute <= MOST_PER_MINUTE:
        raise NotRefundable(f"per_minute is {per_minute}: it must be between 1 and {MOST_PER_MINUTE}")
    if percent is not None and not 1 <= percent <= 100:
        raise NotRefundable(f"percent is {percent}: it must be between 1 and 100")
    if (missing := await tx.fetchval(MISSING, ids)) is not None:
        raise NotFound(f"there is no payment {missing}: nothing was requested")
    cause = None if tx.cause is None else tx.cause.id
    batch_id = await tx.fetchval(ADD, reason[:200], percent, per_minute, by, key, len(ids), cause)
    if batch_id is None:
        return await report(tx, await tx.fetchval(BY_KEY, key))
    await tx.execute(ADD_ITEMS, batch_id, ids)
    await tx.audit(
        "refunds.requested",
        entity_type="refund_batch",
        entity_id=batch_id,
        changes={"payments": len(ids), "percent": percent, "per_minute": per_minute},
        reason=reason[:200],
    )
    await call_soon(tx, batch_id)
    return await report(tx, batch_id)


async def call_soon(tx: Any, batch_id: UUID) -> None:
    await enqueue(tx, BATCH, {"batch_id": batch_id}, unique=f"batch:{batch_id}")


async def stop(tx: Any, batch_id: UUID) -> RefundBatch:
    """Ask for no further refund of a batch. Those that were asked for go on."""
    await tx.fetchval(MOVE, batch_id, "stopped")
    return await report(tx, batch_id)


async def report(tx: Any, batch_id: UUID) -> RefundBatch:
    """Return how a batch stands."""
    batch = await tx.fetchrow(GET, batch_id)
    if batch is None:
        raise NotFound(f"there is no batch of refunds {batch_id}")
    counts: dict[str, int] = {}
    amounts: dict[str, int] = {}
    for row in await tx.fetch(REFUNDS, batch_id):
        counts[row["status"]] = counts.get(row["status"], 0) + row["count"]
        if row["status"] in ("done", "settled"):
            amounts[row["currency"]] = amounts.get(row["currency"], 0) + row["amount"]
    return RefundBatch(
        id=batch["id"],
        state=batch["state"],
        reason=batch["reason"],
        total=batch["total"],
        asked=batch["asked"],
        refunds=counts,
        paid_back=tuple(Money(amount, currency) for currency, amount in amounts.items()),
        refused=batch["refused"],
        reasons={row["payment_id"]: row["why"] for row in await tx.fetch(REFUSED, batch_id)},
    )


def pace(per_minute: int) -> tuple[int, float]:
    """Return how many payments a portion has, and how long the job waits after it."""
    wait_s = max(STEP_S, 60.0 / per_minute)
    return max(1, int(per_minute * wait_s / 60.0)), wait_s


async def run(job: Job, *, batch_id: str) -> Mapping[str, Any]:
    """Ask for the next portion. When all are asked for, wait until the service has answered, and report."""
    id = UUID(batch_id)
    async with job.transaction() as tx:
        batch = await tx.fetchrow(GET, id)
    if batch is None or batch["state"] in ("done", "stopped"):
        return {"state": "gone" if batch is None else batch["state"]}
    portion, wait_s = pace(batch["per_minute"])
    if batch["state"] == "running":
        for _ in range(portion):
            async with job.transaction(fenced=True) as tx:
                is_left = await _ask_next(tx, id)
            if not is_left:
                break
        else:
            raise Snooze(wait_s, f"{batch['per_minute']} refunds a minute")
    async with job.transaction(fenced=True) as tx:
        found = await report(tx, id)
        if found.refunds.keys() & {"requested", "sent"}:
            await tx.fetchval(MOVE, id, "asked")
        elif await tx.fetchval(MOVE, id, "done") is not None:
            await _tell(tx, found)
            return summary(found)
    raise Snooze(LOOK_AGAIN_S, "the service has not answered every refund")


async def _ask_next(tx: Any, batch_id: UUID) -> bool:
    """Ask for the refund of the next payment. False: there is none left, or the batch was stopped."""
    batch = await tx.fetchrow(GET + " for update", batch_id)
    item = None if batch["state"] != "running" else await tx.fetchrow(NEXT, batch_id)
    if item is None:
        return False
    outcome, refund_id, why = "asked", None, None
    try:
        async with tx.savepoint("refund"):
            refund = await _request(tx, batch, item["payment_id"])
            outcome, refund_id = ("asked", refund["id"]) if refund is not None else ("refused", None)
            why = "nothing is left to refund" if refund is None else None
    except (asyncpg.PostgresError, Superseded):
        raise  # the attempt is repeated
    except Exception as error:
        # One payment that the app or the machine refuses must not stop the others.
        name = "" if isinstance(error, PaymentError) else f"{type(error).__name__}: "
        outcome, why = "refused", f"{name}{error}"[:300]
    await tx.execute(ANSWER, batch_id, item["number"], refund_id, outcome, why)
    await tx.execute(COUNT, batch_id, int(outcome == "asked"), int(outcome == "refused"))
    return True


async def _request(tx: Any, batch: Row, payment_id: UUID) -> Row | None:
    known = await store.get(tx, payment_id)
    subject = reports.registry_of(tx).subject(known["subject_type"])
    row = await reports.lock(tx, subject, payment_id, known["subject_id"])
    return await refunds.request(
        tx,
        row,
        amount=None,
        percent=batch["percent"],
        reason=batch["reason"],
        by=batch["requested_by"],
        key=f"batch:{batch['id']}",
    )


async def _tell(tx: Any, found: RefundBatch) -> None:
    failed = found.refunds.get("failed", 0)
    level = "warn" if failed or found.refused else "info"
    title = f"{found.total} refunds were requested: {failed} failed, {found.refused} were not possible"
    await tx.notify_admins("REFUNDS_DONE", level, title, summary(found), audience="accounting")


def summary(found: RefundBatch) -> dict[str, Any]:
    """Return the report as text and numbers."""
    return {
        "batch": str(found.id),
        "state": found.state,
        "payments": found.total,
        "refunds": dict(found.refunds),
        "paid back": [str(each) for each in found.paid_back],
        "not possible": found.refused,
        "reasons": {str(payment): why for payment, why in list(found.reasons.items())[:10]},
    }
