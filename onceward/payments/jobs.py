"""The jobs that call payment services. Each reads, calls without a transaction, and writes under its lease."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from onceward.services import Services
from onceward.services.outcome import Absent, Refused
from onceward.work import Claimed, Job, Retry, RetryPolicy, Task

from . import batches, daily, job_queue, page_reports, payment_pages, reconciliation, refunds, reports, store
from .calls import AccountRefused, again, service_of_job
from .declarations import Subject, is_by_hand
from .service import (
    Disputes,
    PaymentReport,
    PaymentService,
    RefundOrder,
    RefundRefused,
    RefundReport,
    Refunds,
    SubscriptionReport,
)

Row = Any
PATIENT = RetryPolicy(max_attempts=1000, first_s=5, factor=2.0, max_wait_s=3600)
"""Calls that move money are repeated for weeks: an outage of the service must not end them."""
BALANCE_WAIT = timedelta(hours=6)
ACCOUNT_REFUSED = (
    "A payment service cannot be called with our credentials: payments and refunds wait until they are repaired"
)


class Jobs:
    """The jobs of the machine. `services` returns the services of the process."""

    def __init__(self, services: Callable[[], Services]) -> None:
        self.services = services
        self.asking = reconciliation.Asking(services)
        self.daily = daily.Daily(services)

    def tasks(self) -> list[Task]:
        """Return the tasks that a worker runs."""
        return [
            _task(job_queue.CAPTURE, self.capture),
            _task(job_queue.CLOSE, self.close),
            _task(job_queue.REFUND, self.refund),
            _task(job_queue.END_PLAN, self.end_plan),
            _task(job_queue.BATCH, batches.run),
            _task(job_queue.ASK, self.asking.ask, retry=RetryPolicy(max_attempts=3, first_s=30), critical=False),
            _task(
                job_queue.LIST, self.asking.list_events, retry=RetryPolicy(max_attempts=3, first_s=30), critical=False
            ),
            _task(
                job_queue.CHECK,
                self.daily.check,
                retry=RetryPolicy(max_attempts=3, first_s=300),
                critical=False,
                timeout_s=1800.0,
            ),
        ]

    async def service(self, row: Row) -> PaymentService:
        return await service_of_job(self.services(), row)

    # -- pages ---------------------------------------------------------------------------------------------------
    # ------------

    async def capture(self, job: Job, *, payment_id: str, page: str) -> str:
        """Take the money of an approved page, unless the payment has ended."""
        async with job.transaction() as tx:
            row = await store.get(tx, UUID(payment_id))
        if (
            row is None
            or row["status"] not in ("created", "open")
            or row["superseded_at"]
            or row["close_at"] <= row["now"]
        ):
            return "not captured"
        report = await (await self.service(row)).capture(page, key=f"capture:{page}")
        if isinstance(report, Absent):
            report = PaymentReport(state="expired", payment_id=row["id"], page=page)
        if not isinstance(report, PaymentReport):
            raise again(report)
        return await write(job, row, report)

    async def close(self, job: Job, *, payment_id: str, page: str | None = None) -> str:
        """Make sure that a page cannot be paid any more. The buyer may have been faster: then the money is handed to
        the app."""
        async with job.transaction() as tx:
            row = await store.get(tx, UUID(payment_id))
            plan = await tx.fetchrow(
                "select count, months from onceward.payment_plans where payment_id = $1", UUID(payment_id)
            )
        if row is None or (page is None and (row["closed_at"] is not None or row["received"] > 0)):
            return "closed"
        if page is None and row["close_at"] > row["now"]:
            return "not due"
        if row["status"] == "processing":
            return "processing"
        service = await self.service(row)
        page = page or row["page"]
        if page is None and row["page_asked_at"] is not None:
            page = await self._unrecorded_page(service, row, plan)
        if page is None:
            return await write(job, row, PaymentReport(state="expired", payment_id=row["id"]))
        report = await service.close(page, key=f"close:{page}")
        if isinstance(report, Absent):
            report = PaymentReport(state="expired", payment_id=row["id"], page=page)
        if not isinstance(report, PaymentReport):
            raise again(report)
        if report.state in ("open", "approved"):
            if not service.needs_capture:
                raise Retry(f"page {page} is still open")
            report = PaymentReport(state="expired", payment_id=row["id"], page=page)  # nobody captures it any more
        return await write(job, row, report)

    async def _unrecorded_page(self, service: PaymentService, row: Row, plan: Row | None) -> str | None:
        """Return the page that a call may have opened without an answer. The same key returns the same page."""
        order = payment_pages.build_order(row, row["page_expires_at"], plan)
        report = await service.open(order, key=payment_pages.page_key(row))
        if isinstance(report, PaymentReport):
            return report.page
        if isinstance(report, Refused) and report.permanent:
            return None
        raise again(report)

    # -- refunds -------------------------------------------------------------------------------------------------
    # ------------

    async def refund(self, job: Job, *, refund_id: str, attempt: int) -> str:
        """Ask the service for a refund. Another attempt, a settlement by hand or another worker overtakes this one."""
        async with job.transaction(fenced=True) as tx:
            row, refund = await refunds.lock(tx, UUID(refund_id))
            if refund["status"] not in ("requested", "sent") or refund["attempt"] != attempt:
                return refund["status"]
            called_at = refund["called_at"] or refund["now"]
            await store.change(tx, "payment_refunds", refund["id"], status="sent", called_at=called_at)
        order = RefundOrder(
            refund_id=refund["id"],
            payment_id=row["id"],
            charge=row["charge"],
            amount=None if refund["is_rest"] and not is_by_hand(row["service"]) else store.money(refund),
            reason=refund["reason"],
            metadata=refund["metadata"],
        )
        service = await self.service(row)
        age_s = (refund["now"] - called_at).total_seconds()
        answer = await service.refund(order, key=refunds.attempt_key(refund["id"], attempt), key_age_s=age_s)
        if isinstance(answer, RefundRefused) and answer.why == "no_balance":
            raise Retry(answer.reason, after=BALANCE_WAIT)
        others = await self._others(service, row) if isinstance(answer, RefundRefused) else ()
        failure = _failure(answer)
        if failure is None and not isinstance(answer, RefundReport):
            assert not isinstance(answer, RefundRefused | Absent)
            raise again(answer)
        async with job.transaction(fenced=True) as tx:
            subject, row = await lock_payment(tx, row)
            for each in others:
                await reports.apply_to(tx, subject, row, each)
                row = await store.lock(tx, row["id"])
            if isinstance(answer, RefundReport):
                return await refunds.apply(tx, subject, row, answer)
            current = await tx.fetchrow(store.LOCK_REFUND, refund["id"])
            if current["status"] != "sent" or current["attempt"] != attempt:
                return current["status"]
            why = answer.why if isinstance(answer, RefundRefused) else None
            if why in ("nothing_left", "disputed") and refunds.is_gone(row):
                return await refunds.cover(tx, row, current)
            return await refunds.fail(tx, subject, row, current, failure or "", why=why)

    async def _others(self, service: PaymentService, row: Row) -> tuple[Any, ...]:
        """Return what else took the money: refunds and disputes of the charge, as the service has them."""
        listed = await service.list_refunds(row["charge"])
        disputes = await service.list_disputes(row["charge"])
        if not isinstance(listed, Refunds | Absent):
            raise again(listed)
        if not isinstance(disputes, Disputes | Absent):
            raise again(disputes)
        found: tuple[Any, ...] = listed.listed if isinstance(listed, Refunds) else ()
        return (*found, *(disputes.listed if isinstance(disputes, Disputes) else ()))

    # -- instalments
    # ---------------------------------------------------------------------------------------------------------

    async def end_plan(self, job: Job, *, plan_id: str) -> str:
        """End the subscription of a plan. The plan is asked about until the service says that it has ended."""
        async with job.transaction() as tx:
            plan = await tx.fetchrow("select * from onceward.payment_plans where id = $1", UUID(plan_id))
            row = None if plan is None else await store.get(tx, plan["payment_id"])
        if plan is None or row is None or plan["subscription"] is None or plan["ended_at"] is not None:
            return "nothing to end"
        with_period = plan["end_how"] == "with_period"
        key = f"end:{plan['subscription']}:{plan['end_how']}"
        service = await self.service(row)
        report = await service.end_subscription(plan["subscription"], key=key, with_period=with_period)
        if isinstance(report, Absent):
            report = SubscriptionReport(reference=plan["subscription"], state="ended", payment_id=row["id"])
        if not isinstance(report, SubscriptionReport):
            raise again(report)
        return await write(job, row, report)


def _failure(answer: object) -> str | None:
    """Return why a refund has failed for good; None if it has not."""
    match answer:
        case RefundRefused(reason=reason):
            return reason[:200]
        case Absent():
            return "the service does not have this charge"
        case Refused(reason, permanent=True, account=False):
            return reason[:200]
        case _:
            return None


async def lock_payment(tx: Any, row: Row) -> tuple[Subject, Row]:
    """Lock a payment that a job has read before."""
    subject = reports.registry_of(tx).subject(row["subject_type"])
    return subject, await reports.lock(tx, subject, row["id"], row["subject_id"])


async def write(job: Job, row: Row, report: Any) -> str:
    """Apply an answer under the lease of the job."""
    async with job.transaction(fenced=True) as tx:
        subject, locked = await lock_payment(tx, row)
        result = await reports.apply_to(tx, subject, locked, report)
        current = await store.get(tx, row["id"])
        ends = isinstance(report, PaymentReport) and report.state == "expired"
        if ends and result == "page ended" and current["close_at"] <= current["now"]:
            return await page_reports.end_unpaid(tx, subject, current, "expired")
        return result


def _task(
    name: str,
    run: Callable[..., Any],
    *,
    retry: RetryPolicy = PATIENT,
    critical: bool = True,
    timeout_s: float = 90.0,
) -> Task:
    async def call(work: Claimed, _: Any) -> Any:
        job = Job(work)
        try:
            return await run(job, **work.args)
        except AccountRefused as refused:
            async with job.transaction() as tx:
                await tx.notify_admins(
                    "PAYMENT_ACCOUNT_REFUSED", "fatal", ACCOUNT_REFUSED, {"reason": str(refused)}, audience="accounting"
                )
            raise

    return Task(
        name=name, run=call, queue=job_queue.QUEUE, retry=retry, timeout_s=timeout_s, outside=True, critical=critical
    )
