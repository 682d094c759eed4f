"""Plans of instalments: a subscription at the service that collects a number of equal payments, and then ends.

    starting ──▶ active ──▶ completed        every instalment is paid; the subscription is ended and checked
                  │  ▲
                  ▼  │ paid
                 late ──grace is over──▶ unpaid
    any ──▶ ending ──▶ ended                 ended by the app, an erasure or the service

Every paid invoice is a payment of its own, with its refunds and disputes. The first one is the payment whose page
started the plan.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, assert_never
from uuid import UUID

from onceward.work import Permanent

from . import page_reports, store
from .declarations import Subject
from .job_queue import ASK, END_PLAN, enqueue
from .model import Accept, Instalment, InstalmentStatus, Return
from .service import InvoiceReport, PaymentReport, SubscriptionReport

Row = Any

LOCK = "select *, onceward.now() as now from onceward.payment_plans where payment_id = $1 for update"
OVER = ("ending", "ended", "completed")
ADD_CHILD = """
insert into onceward.payments (account_id, subject_type, subject_id, amount, currency, title, data, email, locale,
       success_url, cancel_url, erased_at, expires_at, close_at, closed_at, superseded_at, status, plan_id, instalment)
select account_id, subject_type, subject_id, $2, currency, title, data, email, locale,
       success_url, cancel_url, erased_at, onceward.now(), onceward.now(), onceward.now(), onceward.now(), 'processing',
       plan_id, $3
  from onceward.payments where id = $1
returning id
"""
CHECK_EVERY = timedelta(days=1)


async def started(tx: Any, row: Row, subscription: str) -> None:
    """Link the subscription that a page started to its plan."""
    plan = await tx.fetchrow(LOCK, row["id"])
    if plan is None or plan["subscription"] == subscription:
        return
    values: dict[str, Any] = {"subscription": subscription, "ask_at": plan["now"] + CHECK_EVERY}
    if plan["status"] == "starting":
        values["status"] = "active"
    await store.change(tx, "payment_plans", plan["id"], **values)
    if plan["end_how"] is not None:
        await end_soon(tx, plan)


async def apply_invoice(tx: Any, subject: Subject, row: Row, report: InvoiceReport) -> str:
    """Apply the state of one invoice. `row` is the locked payment that started the plan, or that of the invoice
    itself."""
    first = await _first(tx, row)
    plan = await tx.fetchrow(LOCK, first["id"])
    if plan is None:
        return "no plan"
    await store.name_payment(tx, first, [report.subscription])
    await started(tx, first, report.subscription)
    match report.state:
        case "open" | "void":
            return report.state
        case "failed":
            return await _late(tx, subject, first, plan)
        case "paid":
            return await _paid(tx, subject, first, plan, report)
        case _:
            assert_never(report.state)


async def _first(tx: Any, row: Row) -> Row:
    """Return the payment that started the plan of an instalment."""
    if row["plan_id"] is None:
        return row
    first = await tx.fetchval("select payment_id from onceward.payment_plans where id = $1", row["plan_id"])
    return row if first in (None, row["id"]) else await store.lock(tx, first)


async def _paid(tx: Any, subject: Subject, first: Row, plan: Row, report: InvoiceReport) -> str:
    if report.amount.amount == 0:
        return "nothing to pay"
    if report.charge is None:
        arguments = {"kind": "invoice", "id": first["id"], "reference": report.reference}
        await enqueue(tx, ASK, arguments, unique=f"ask:invoice:{report.reference}")
        return "will be asked"
    known = await tx.fetchval(
        "select payment_id from onceward.payment_names where account_id = $1 and name = $2",
        first["account_id"],
        report.reference,
    )
    if known is not None:
        return "known"
    paid = PaymentReport(
        state="paid",
        payment_id=first["id"],
        charge=report.charge,
        names=(*report.names, report.reference),
        received=report.amount,
        fee=report.fee,
        at=report.at,
    )
    number = plan["paid"] + 1
    if first["received"] == 0:
        result = await page_reports.receive(tx, subject, first, paid)
    else:
        result = await _further(tx, subject, first, plan, paid, number, report)
    paid_count = plan["paid"] if result == "returned" else number
    values: dict[str, Any] = {"paid": paid_count, "late_since": None, "asks": 0, "ask_at": plan["now"] + CHECK_EVERY}
    if report.period_end is not None:
        values["period_end"] = report.period_end
    if plan["status"] in ("starting", "late", "unpaid"):
        values["status"] = "active"
    await store.change(tx, "payment_plans", plan["id"], **values)
    if result == "returned" or number >= plan["count"]:
        await end(tx, plan["id"], how="now" if result == "returned" else "with_period")
    return result


async def _further(
    tx: Any, subject: Subject, first: Row, plan: Row, paid: PaymentReport, number: int, report: InvoiceReport
) -> str:
    """Record an instalment after the first as a payment of its own. One that the plan does not have is returned."""
    child_id = await tx.fetchval(ADD_CHILD, first["id"], report.amount.amount, number)
    row = await store.lock(tx, child_id)

    async def decide(payment: Any, tx: Any) -> Accept | Return:
        if plan["status"] in OVER or number > plan["count"]:
            return Return("plan_ended")
        hook = subject.hooks.get("on_instalment")
        if hook is None:
            return Accept()
        answer = await hook(_instalment(plan, "paid", payment, number=number, period_end=report.period_end), tx)
        if not isinstance(answer, Accept | Return):
            raise Permanent(
                f"on_instalment({subject.type!r}) returned {type(answer).__name__}: return Accept or Return"
            )
        return answer

    deciding = replace(subject, hooks={**subject.hooks, "on_paid": decide})
    return await page_reports.receive(tx, deciding, row, paid)


async def _late(tx: Any, subject: Subject, first: Row, plan: Row) -> str:
    if plan["status"] not in ("active",):
        return "known"
    await store.change(tx, "payment_plans", plan["id"], status="late", late_since=plan["now"], ask_at=plan["now"])
    await _tell(tx, subject, first, plan, "late")
    return "late"


async def apply_subscription(tx: Any, subject: Subject, row: Row, report: SubscriptionReport) -> str:
    """Apply the state of a subscription: late, unpaid and ended are states that the app hears of."""
    first = await _first(tx, row)
    plan = await tx.fetchrow(LOCK, first["id"])
    if plan is None:
        return "no plan"
    await started(tx, first, report.reference)
    plan = await tx.fetchrow(LOCK, first["id"])
    if report.period_end is not None:
        await store.change(tx, "payment_plans", plan["id"], period_end=report.period_end)
    match report.state:
        case "incomplete" | "active":
            if plan["end_how"] is not None and report.state == "active" and not report.ends_with_period:
                await end_soon(tx, plan)
            return report.state
        case "late":
            return await _late(tx, subject, first, plan)
        case "unpaid":
            return await unpaid(tx, subject, first, plan)
        case "ended":
            return await _ended(tx, subject, first, plan)
        case _:
            assert_never(report.state)


async def unpaid(tx: Any, subject: Subject, first: Row, plan: Row) -> str:
    """The service gave up, or the grace period is over: the app decides what its customer loses."""
    if plan["status"] not in ("active", "late"):
        return "known"
    await store.change(tx, "payment_plans", plan["id"], status="unpaid", ask_at=plan["now"] + CHECK_EVERY)
    await _tell(tx, subject, first, plan, "unpaid")
    return "unpaid"


async def _ended(tx: Any, subject: Subject, first: Row, plan: Row) -> str:
    if plan["status"] in ("ended", "completed"):
        await store.change(tx, "payment_plans", plan["id"], ask_at=None, ended_at=plan["ended_at"] or plan["now"])
        return "known"
    is_complete = plan["paid"] >= plan["count"]
    status = "completed" if is_complete else "ended"
    await store.change(tx, "payment_plans", plan["id"], status=status, ended_at=plan["now"], ask_at=None)
    if not is_complete:
        await _tell(tx, subject, first, plan, "ended")
    return status


async def end(tx: Any, plan_id: UUID, *, how: str) -> None:
    """End a plan at the service, by a job. The plan is asked about until the service says that it has ended."""
    plan = await tx.fetchrow(
        "select *, onceward.now() as now from onceward.payment_plans where id = $1 for update", plan_id
    )
    if plan is None or plan["ended_at"] is not None or plan["end_how"] == "now":
        return
    status = "completed" if plan["paid"] >= plan["count"] and how == "with_period" else "ending"
    await store.change(
        tx, "payment_plans", plan_id, end_how=how, status=status, asks=0, ask_at=plan["now"] + CHECK_EVERY / 24
    )
    if plan["subscription"] is not None:
        await end_soon(tx, plan)


async def end_soon(tx: Any, plan: Row) -> None:
    how = await tx.fetchval("select end_how from onceward.payment_plans where id = $1", plan["id"])
    await enqueue(tx, END_PLAN, {"plan_id": plan["id"]}, unique=f"end:{plan['id']}:{how}")


async def _tell(tx: Any, subject: Subject, first: Row, plan: Row, status: InstalmentStatus) -> None:
    if status in ("late", "unpaid"):
        details = {"plan": str(plan["id"]), "payment": str(first["id"]), first["subject_type"]: first["subject_id"]}
        title = "An instalment could not be collected" if status == "late" else "A plan of instalments is unpaid"
        await tx.notify_admins(f"INSTALMENT_{status.upper()}", "warn", title, details, audience="accounting")
    if (hook := subject.hooks.get("on_instalment")) is not None:
        payment = store.payment_of(await store.get(tx, first["id"]))
        await hook(_instalment(plan, status, payment, number=plan["paid"], period_end=plan["period_end"]), tx)


def _instalment(plan: Row, status: InstalmentStatus, payment: Any, *, number: int, period_end: Any) -> Instalment:
    return Instalment(
        plan_id=plan["id"],
        status=status,
        payment=payment,
        number=number,
        count=plan["count"],
        period_end=period_end or plan["period_end"],
    )
