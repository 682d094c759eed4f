"""Find the payment that a report is about, lock what has to be locked, and apply the report.

A report is ours if our table has the payment, for the account that the report comes from. Everything else is foreign.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, assert_never
from uuid import UUID

from onceward.money import Money

from . import disputes, page_reports, payouts, plans, refunds, store
from .declarations import PaymentRegistry, Subject
from .job_queue import ASK, enqueue
from .service import (
    DisputeReport,
    Fact,
    InvoiceReport,
    PaymentReport,
    PayoutReport,
    RefundReport,
    RefundsChanged,
    SubscriptionReport,
)

Row = Any
FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a report comes from: a webhook source, and for a platform the connected account that it is about."""

    source: str
    connected: str | None = None
    event_id: str | None = None
    """The id of the service's event, if an event is the report."""


async def apply_facts(tx: Any, origin: Origin, facts: tuple[Fact, ...]) -> list[str]:
    """Apply all facts of one event, and return what each caused."""
    return [await apply_fact(tx, origin, fact) for fact in facts]


async def apply_fact(tx: Any, origin: Origin, fact: Fact) -> str:
    """Apply one fact, or answer `foreign`."""
    if isinstance(fact, PayoutReport):
        return await payouts.apply(tx, origin.source, origin.connected, fact)
    acts = tx.organization is None
    found = await tx.fetchrow(store.FIND, origin.source, origin.connected, fact.payment_id, _names(fact), acts)
    if found is None:
        return FOREIGN
    if found["payment_id"] is None:
        await _keep_early(tx, found["account_id"], fact)
        return FOREIGN
    if acts:
        tx.organization = found["organization_id"]  # as the statement has made it
    elif tx.organization != found["organization_id"]:
        return FOREIGN
    subject = registry_of(tx).subject(found["subject_type"])
    row = await lock(tx, subject, found["payment_id"], found["subject_id"])
    if row["received"] == 0 and await _keep_early(tx, found["account_id"], fact):
        return "kept"
    return await apply_to(tx, subject, row, fact, event_id=origin.event_id)


async def lock(tx: Any, subject: Subject, payment_id: UUID, subject_id: str) -> Row:
    """Lock the rows of the app, then the payment: every transaction locks in this sequence."""
    if subject.lock is not None:
        await subject.lock(tx, subject_id)
    return await store.lock(tx, payment_id)


def registry_of(tx: Any) -> PaymentRegistry:
    """Return what the apps of this process declare."""
    return tx.engine.registry.payments


async def apply_to(tx: Any, subject: Subject, row: Row, fact: Fact, *, event_id: str | None = None) -> str:
    """Apply a fact to its locked payment."""
    match fact:
        case PaymentReport():
            result = await page_reports.apply(tx, subject, row, fact, event_id=event_id)
            if fact.subscription is not None:
                await plans.started(tx, row, fact.subscription)
            return await _with_early(tx, subject, row["account_id"], result)
        case RefundReport():
            return await refunds.apply(tx, subject, row, fact)
        case RefundsChanged():
            await enqueue(tx, ASK, {"kind": "payment", "id": row["id"]}, unique=f"ask:payment:{row['id']}")
            return "will be asked"
        case DisputeReport():
            return await disputes.apply(tx, subject, row, fact)
        case InvoiceReport():
            return await _with_early(tx, subject, row["account_id"], await plans.apply_invoice(tx, subject, row, fact))
        case SubscriptionReport():
            return await plans.apply_subscription(tx, subject, row, fact)
        case PayoutReport():
            raise AssertionError("a payout belongs to no payment")
        case _:
            assert_never(fact)


def _names(fact: Fact) -> list[str]:
    """Return the ids at the service by which a fact names its payment."""
    match fact:
        case PaymentReport():
            return page_reports.names_of(fact)
        case RefundReport() | RefundsChanged() | DisputeReport():
            names = [fact.charge]
        case InvoiceReport():
            names = [fact.reference, fact.charge, fact.subscription]
        case SubscriptionReport():
            names = [fact.reference]
        case PayoutReport():
            names = []
        case _:
            assert_never(fact)
    return [each for each in names if each is not None]


# -- reports that come before their payment
# ----------------------------------------------------------------------------------


async def _keep_early(tx: Any, account_id: UUID, fact: Fact) -> bool:
    """Keep a refund or a dispute of money that is not here yet. False: the fact is of another kind."""
    if not isinstance(fact, RefundReport | DisputeReport):
        return False
    kind = "refund" if isinstance(fact, RefundReport) else "dispute"
    values = (account_id, fact.charge, kind, fact.reference, _dump(fact))
    await tx.execute("select onceward.keep_early_fact($1, $2, $3, $4, $5)", *values)
    return True


async def _with_early(tx: Any, subject: Subject, account_id: UUID, result: str) -> str:
    """Apply refunds and disputes that were reported before the money that has just been received."""
    for early in result.early if isinstance(result, page_reports.Decided) else ():
        fact = _load(RefundReport if early["kind"] == "refund" else DisputeReport, early["fact"])
        payment_id = await tx.fetchval(
            "select payment_id from onceward.payment_names where account_id = $1 and name = $2", account_id, fact.charge
        )
        if payment_id is not None:
            await apply_to(tx, subject, await store.lock(tx, payment_id), fact)
    return result


def _dump(fact: RefundReport | DisputeReport) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else str(value) if isinstance(value, UUID) else value
        for name, value in asdict(fact).items()
    }


def _load(kind: type[Any], stored: dict[str, Any]) -> Any:
    values: dict[str, Any] = {each.name: stored.get(each.name) for each in fields(kind)}
    for name in ("amount", "withheld", "fee"):
        if values.get(name) is not None:
            values[name] = Money(**values[name])
    if values.get("at") is not None:
        values["at"] = datetime.fromisoformat(values["at"])
    if values.get("payment_id") is not None:
        values["payment_id"] = UUID(values["payment_id"])
    return kind(**values)
