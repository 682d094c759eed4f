"""Open the page of a payment at the service when the buyer follows our link. No call is made inside a transaction."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from onceward.money import Money
from onceward.services import NotSet, Services
from onceward.services.outcome import Refused

from . import store
from .calls import service_for
from .declarations import service_class
from .errors import PaymentError
from .job_queue import CLOSE, enqueue
from .model import HAS_MONEY, UNPAID
from .service import InstalmentOrder, Line, PageOrder, PaymentReport

Row = Any
OpenTx = Callable[[], AbstractAsyncContextManager[Any]]
SPARE = timedelta(minutes=1)
MOST_TRIES = 3

BEGIN = """
update onceward.payments set page_asked_at = coalesce(page_asked_at, onceward.now()),
       page_expires_at = case when page_asked_at is null then clock_timestamp() + $2 else page_expires_at end
 where id = $1 returning page_expires_at
"""
RECORD = """
update onceward.payments set status = 'open', page = $3, page_url = $4, ask_at = least(ask_at, onceward.now() +
interval '10 min')
 where id = $1 and page_number = $2 and status in ('created', 'open') and superseded_at is null and close_at >
 onceward.now()
returning id
"""
NEXT_NUMBER = """
update onceward.payments set page_number = page_number + 1, page_asked_at = null, page = null, page_url = null
 where id = $1 and page_number = $2
"""


@dataclass(frozen=True, slots=True)
class Visit:
    """Where the buyer goes. `url` is None if the payment has ended without a page to return to."""

    state: Literal["page", "paid", "processing", "ended", "refused", "unavailable"]
    url: str | None = None
    reason: str = ""


async def visit(open_tx: OpenTx, services: Services, payment_id: UUID) -> Visit:
    """Return where the buyer of a payment goes, and open the page at the service if it is not open."""
    for _ in range(MOST_TRIES):
        async with open_tx() as tx:
            row = await store.lock(tx, payment_id)
            if row is None:
                return Visit("ended", reason="there is no such payment")
            if (known := _without_call(row)) is not None:
                return known
            order = await _order(tx, row)
        try:
            service = await service_for(services, row)
            report = await service.open(order, key=page_key(row))
        except (NotSet, PaymentError) as error:
            return Visit("refused", row["cancel_url"], str(error))
        if isinstance(report, Refused) and report.permanent and row["page_asked_at"] is not None:
            # The service never made this page, or it has ended: it refuses its old expiry. Another page may be opened.
            async with open_tx() as tx:
                await tx.execute(NEXT_NUMBER, payment_id, row["page_number"])
            continue
        if not isinstance(report, PaymentReport):
            lasting = isinstance(report, Refused) and (report.permanent or report.account)
            reason = getattr(report, "reason", "too many requests")
            return Visit("refused" if lasting else "unavailable", row["cancel_url"], reason)
        if (done := await _record(open_tx, row, report)) is not None:
            return done
    return Visit("unavailable", reason="the payment is being opened in another window")


def page_key(row: Row) -> str:
    """Return the idempotency key of the current page."""
    return f"payment:{row['id']}:page:{row['page_number']}"


def _without_call(row: Row) -> Visit | None:
    if row["status"] in HAS_MONEY:
        return Visit("paid", row["success_url"])
    if row["status"] == "processing":
        return Visit("processing", row["success_url"])
    if row["status"] not in UNPAID or row["superseded_at"] is not None or row["close_at"] <= row["now"]:
        return Visit("ended", row["cancel_url"], "this payment has ended")
    if row["page_url"] is not None and row["page_expires_at"] > row["now"] + SPARE:
        return Visit("page", row["page_url"])
    return None


async def _order(tx: Any, row: Row) -> PageOrder:
    service = service_class(row["service"])
    asked = (row["close_at"] - row["now"]).total_seconds()
    lasts = min(max(asked, service.shortest_page_s) + SPARE.total_seconds(), service.longest_page_s)
    expires_at = await tx.fetchval(BEGIN, row["id"], timedelta(seconds=lasts))
    plan = await tx.fetchrow("select count, months from onceward.payment_plans where payment_id = $1", row["id"])
    return build_order(row, expires_at, plan)


def build_order(row: Row, expires_at: Any, plan: Row | None) -> PageOrder:
    """Return the order of a payment's page. It is the same in every call with the same key."""
    lines = tuple(
        Line(each["title"], Money(each["amount"], row["currency"]), each["quantity"]) for each in row["lines"]
    )
    return PageOrder(
        payment_id=row["id"],
        amount=Money(row["amount"], row["currency"]),
        title=row["title"],
        success_url=row["success_url"],
        cancel_url=row["cancel_url"],
        expires_at=expires_at,
        lines=lines,
        email=row["email"],
        locale=row["locale"],
        instalments=None if plan is None else InstalmentOrder(plan["count"], plan["months"]),
        metadata={row["subject_type"]: row["subject_id"]},
    )


async def _record(open_tx: OpenTx, row: Row, report: PaymentReport) -> Visit | None:
    """Record the page. None: the payment ended or got another page meanwhile, and this page closes."""
    async with open_tx() as tx:
        await store.lock(tx, row["id"])
        await store.name_payment(tx, row, [report.page])
        if report.state not in ("open", "approved"):
            # A repeated call returned a page that was paid or has ended: ask about it as about any other.
            await store.change(tx, "payments", row["id"], page=report.page, ask_at=row["now"])
            return Visit("processing" if report.state in ("paid", "processing") else "ended", row["success_url"])
        if await tx.fetchval(RECORD, row["id"], row["page_number"], report.page, report.url) is not None:
            return Visit("page", report.url)
        await store.change(tx, "payments", row["id"], page=report.page, closed_at=None)
        await enqueue(tx, CLOSE, {"payment_id": row["id"], "page": report.page}, unique=f"close:{report.page}")
    return None
