"""Reconciliation: ask the service about everything that has no end yet, and list events that no webhook brought."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from onceward.services import Services
from onceward.services.outcome import Absent
from onceward.work import Job

from . import plans, refunds, reports, store
from .calls import again, service_of_job
from .declarations import service_class
from .service import (
    Disputes,
    EventPage,
    Fact,
    InvoiceReport,
    PaymentReport,
    RefundReport,
    Refunds,
    SubscriptionReport,
)

Row = Any
OVERLAP = timedelta(days=2)
MOST_PAGES = 20
ACCOUNT = """
select *, organization_id as account_owner, name as account_name, onceward.now() as now
  from onceward.payment_accounts where id = $1
"""
LISTED = "select onceward.payment_events_listed($1, $2)"


class Asking:
    """The jobs that ask. `services` returns the services of the process."""

    def __init__(self, services: Callable[[], Services]) -> None:
        self.services = services

    async def ask(self, job: Job, *, kind: str, id: str, reference: str | None = None) -> str:
        """Ask the service about one payment, refund, dispute, plan or invoice, and apply the answer."""
        async with job.transaction() as tx:
            row, refund, plan = await self._subject(tx, kind, UUID(id))
        if row is None:
            return "gone"
        if refund is not None and refund["status"] in ("requested", "sent"):
            async with job.transaction(fenced=True) as tx:
                await refunds.call_soon(tx, refund)
            return "called again"
        facts = await self._facts(kind, row, refund, plan, reference)
        done: list[str] = []
        for fact in facts:
            async with job.transaction(fenced=True) as tx:
                subject = reports.registry_of(tx).subject(row["subject_type"])
                locked = await reports.lock(tx, subject, row["id"], row["subject_id"])
                done.append(await reports.apply_to(tx, subject, locked, fact))
        if plan is not None:
            done.append(await self._follow_plan(job, row, plan))
        return ", ".join(done) or "nothing new"

    async def _subject(self, tx: Any, kind: str, id: UUID) -> tuple[Row, Row, Row]:
        refund = await tx.fetchrow(store.REFUND, id) if kind == "refund" else None
        plan = await tx.fetchrow("select * from onceward.payment_plans where id = $1", id) if kind == "plan" else None
        dispute = (
            await tx.fetchrow("select * from onceward.payment_disputes where id = $1", id)
            if kind == "dispute"
            else None
        )
        owner = refund or plan or dispute
        return await store.get(tx, id if owner is None else owner["payment_id"]), refund, plan

    async def _facts(self, kind: str, row: Row, refund: Row, plan: Row, reference: str | None) -> Sequence[Fact]:
        service = await service_of_job(self.services(), row)
        if kind == "refund":
            if refund["status"] != "pending" or refund["reference"] is None:
                return ()
            answer = await service.read_refund(refund["reference"], charge=row["charge"])
            if isinstance(answer, Absent):
                return ()
            return [_or_retry(answer, RefundReport)]
        if kind == "invoice" and reference is not None:
            invoice = await service.read_invoice(reference)
            return () if isinstance(invoice, Absent) else [_or_retry(invoice, InvoiceReport)]
        if kind == "plan":
            return await self._plan_facts(service, plan)
        if row["received"] > 0:
            listed = await service.list_refunds(row["charge"])
            disputes = await service.list_disputes(row["charge"])
            found: list[Fact] = [] if isinstance(listed, Absent) else list(_or_retry(listed, Refunds).listed)
            return found if isinstance(disputes, Absent) else [*found, *_or_retry(disputes, Disputes).listed]
        if row["page"] is None:
            return ()
        page = await service.read(row["page"])
        if isinstance(page, Absent):
            return [PaymentReport(state="expired", payment_id=row["id"], page=row["page"])]
        return [_or_retry(page, PaymentReport)]

    async def _plan_facts(self, service: Any, plan: Row) -> Sequence[Fact]:
        if plan["subscription"] is None:
            return ()
        invoices = await service.list_invoices(plan["subscription"])
        subscription = await service.read_subscription(plan["subscription"])
        facts: list[Fact] = [] if isinstance(invoices, Absent) else list(_or_retry(invoices, tuple))
        if isinstance(subscription, Absent):
            ended = SubscriptionReport(reference=plan["subscription"], state="ended", payment_id=plan["payment_id"])
            return [*facts, ended]
        return [*facts, _or_retry(subscription, SubscriptionReport)]

    async def _follow_plan(self, job: Job, row: Row, plan: Row) -> str:
        """End the grace period of a late plan, and the subscription of a plan that must end."""
        async with job.transaction(fenced=True) as tx:
            subject = reports.registry_of(tx).subject(row["subject_type"])
            first = await reports.lock(tx, subject, row["id"], row["subject_id"])
            now = await tx.fetchrow(plans.LOCK, first["id"])
            if now["end_how"] is not None and now["ended_at"] is None:
                await plans.end_soon(tx, now)
                return "will be ended"
            grace = timedelta(days=now["grace_days"])
            if now["status"] == "late" and now["late_since"] + grace <= now["now"]:
                return await plans.unpaid(tx, subject, first, now)
        return now["status"]

    async def list_events(self, job: Job, *, account_id: str) -> dict[str, int]:
        """Apply the events of an account since the last time. Those that webhooks brought change nothing."""
        async with job.transaction() as tx:
            account = await tx.fetchrow(ACCOUNT, UUID(account_id))
        if account is None or account["source"] is None:
            return {"events": 0}
        service = await service_of_job(self.services(), account)
        cursor, events, applied = account["cursor"], 0, 0
        since = (account["listed_at"] or account["now"]) - OVERLAP
        for _ in range(MOST_PAGES):
            page = await service.list_events(cursor, since=since)
            if not isinstance(page, EventPage):
                raise again(page)
            for reading in page.readings:
                origin = reports.Origin(account["source"], reading.account or account["connected_account"])
                async with job.transaction(fenced=True) as tx:
                    results = await reports.apply_facts(tx, origin, reading.facts)
                events += 1
                applied += sum(each not in ("known", reports.FOREIGN) for each in results)
            cursor = page.cursor
            async with job.transaction(fenced=True) as tx:
                await tx.execute(LISTED, account["id"], cursor)
            if not page.has_more:
                break
        return {"events": events, "applied": applied}


def _or_retry(answer: Any, kind: type[Any]) -> Any:
    if not isinstance(answer, kind):
        raise again(answer)
    return answer


def event_types(service: str) -> tuple[str, ...]:
    """Return the types of events that a service's webhook must send."""
    return service_class(service).event_types
