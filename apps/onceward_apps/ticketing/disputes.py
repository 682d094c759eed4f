"""Disputes and reversals: a buyer's bank or PayPal takes money back. Record and book them, notify staff, freeze tickets.

    open ──won──▶  the money is returned, the tickets are valid again
      └───lost──▶  the money is an expense, the tickets are void and the seats free

| money                     | debit             | credit            |
|---------------------------|-------------------|-------------------|
| taken while it is decided | disputed payments | cash              |
| won                       | the reversal of that                  |
| lost                      | dispute losses    | disputed payments |

The fee that a service takes for a dispute is not booked here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from onceward import Tx
from onceward.ledger import Entry, open_account, reverse
from onceward_apps.ticketing import notices
from onceward_apps.ticketing.reversals import end_tickets, lock_payment
from onceward_apps.ticketing.store import disputes, refunds, sales

State = Literal["open", "won", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDispute:
    """One dispute at a payment service. `is_withheld`: the service took the money out of our account."""

    provider: str
    payment: str
    id: str
    amount_cents: int
    currency: str
    reason: str
    status: str
    state: State
    is_withheld: bool


async def follow(tx: Tx, reported: ServiceDispute) -> State:
    """Apply the state of a dispute. A repeat changes nothing, and neither does a message after the decision."""
    payment = await refunds.payment(tx, await lock_payment(tx, reported.provider, reported.payment))
    dispute = await disputes.find(tx, payment["id"], reported.id)
    is_new = dispute is None
    if dispute is None:
        values = (reported.id, reported.amount_cents, reported.currency, reported.reason[:200], reported.status)
        dispute = await disputes.add(tx, payment["id"], payment["checkout_id"], *values)
    elif dispute["status"] != "open":
        return dispute["status"]
    else:
        await disputes.seen(tx, dispute["id"], reported.status)
    journal_id = dispute["journal_id"]
    if journal_id is None and (reported.state == "lost" or (reported.is_withheld and reported.state == "open")):
        journal_id = await _post(tx, dispute, "disputed_payments", "cash")
        await disputes.withheld(tx, dispute["id"], journal_id)
    if reported.state == "open":
        if is_new:
            await _tell(tx, payment, dispute, "open", tickets=await _freeze(tx, payment))
        return "open"
    closing = await _close(tx, dispute, journal_id, won=reported.state == "won")
    await disputes.close(tx, dispute["id"], reported.state, closing)
    tickets = await _release(tx, payment) if reported.state == "won" else await _void(tx, payment)
    await _tell(tx, payment, dispute, reported.state, tickets=tickets)
    return reported.state


async def reversed_by_service(tx: Tx, reported: ServiceDispute) -> State:
    """Record that PayPal reversed a payment: the payment's dispute is lost, or a new lost dispute is added."""
    payment_id = await lock_payment(tx, reported.provider, reported.payment)
    dispute = await disputes.newest(tx, payment_id)
    if dispute is None:
        return await follow(tx, reported)
    if dispute["status"] == "lost":
        return "lost"
    values: dict[str, Any] = {"id": dispute["provider_dispute_id"], "amount_cents": dispute["amount_cents"]}
    known = ServiceDispute(
        **values,
        provider=reported.provider,
        payment=reported.payment,
        currency=dispute["currency"],
        reason=dispute["reason"],
        status=reported.status,
        state="lost",
        is_withheld=True,
    )
    return await follow(tx, known)


async def _close(tx: Tx, dispute: Any, journal_id: int | None, *, won: bool) -> int | None:
    if journal_id is None:
        return None  # an inquiry: no money was taken
    if not won:
        return await _post(tx, dispute, "dispute_losses", "disputed_payments")
    return (await reverse(tx, journal_id, key=f"dispute:{dispute['id']}:won", memo="dispute won")).id


async def _post(tx: Tx, dispute: Any, debit: str, credit: str) -> int:
    kinds: dict[str, Literal["asset", "expense"]] = {"dispute_losses": "expense"}
    for code in (debit, credit):
        await open_account(tx, code, currency=dispute["currency"], kind=kinds.get(code, "asset"))
    entry = Entry(debit, credit, dispute["amount_cents"], dispute["currency"])
    return (await tx.post([entry], key=f"dispute:{dispute['id']}:{debit}", memo="payment disputed")).id


async def _freeze(tx: Tx, payment: Any) -> int:
    if payment["purpose"] != "sale" or await disputes.policy(tx, payment["checkout_id"]) == "keep":
        return 0
    return await disputes.freeze(tx, payment["checkout_id"])


async def _release(tx: Tx, payment: Any) -> int:
    if payment["purpose"] != "sale" or await disputes.is_open(tx, payment["checkout_id"]):
        return 0
    return await disputes.release(tx, payment["checkout_id"])


async def _void(tx: Tx, payment: Any) -> int:
    if payment["purpose"] != "sale" or await disputes.policy(tx, payment["checkout_id"]) == "keep":
        return 0
    checkout = await sales.lock(tx, payment["checkout_id"])
    live = await refunds.live_tickets(tx, payment["checkout_id"])
    if live:
        await end_tickets(tx, checkout, live, "disputed")
    return len(live)


async def _tell(tx: Tx, payment: Any, dispute: Any, status: State, *, tickets: int) -> None:
    await notices.disputed(tx, payment, dispute, status, tickets=tickets)
    await tx.audit(
        f"payment_dispute_{status}",
        entity_type="Dispute",
        entity_id=dispute["id"],
        changes={"amount_cents": dispute["amount_cents"], "currency": dispute["currency"], "tickets": tickets},
        metadata={"payment_processor": payment["provider"], "provider_dispute_id": dispute["provider_dispute_id"]},
    )
