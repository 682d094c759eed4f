"""Invoices and credit notes: frozen when they are issued, with numbers without gaps, one series per organization.

A job issues them after the sale, so that sales do not wait for each other's numbers. Nothing changes a document
afterwards:
a refund adds a credit note, and a corrected address adds a credit note and a new invoice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.ticketing import jobs
from onceward_apps.ticketing.errors import CheckoutClosed, NoOrganization, NotFound, TooMany
from onceward_apps.ticketing.jurisdictions import rule_of
from onceward_apps.ticketing.model import spread
from onceward_apps.ticketing.store import invoices, sales

MOST_CORRECTIONS = 5
"""How often the buyer of an order may correct the address of its invoice: each time costs two numbers."""
SERVICE_FEE = "Service fee"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seller:
    """Who sells, as it stands on invoices. `prefix` comes before the number."""

    name: str
    address: str = ""
    tax_id: str = ""
    prefix: str = ""
    footer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Billing:
    """Whom an invoice is for, if it is a company."""

    company: str
    address: str = ""
    tax_id: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a document. Amounts are in minor units; those of a credit note are positive too."""

    text: str
    net_cents: int
    tax_bps: int
    tax_cents: int

    @property
    def gross_cents(self) -> int:
        return self.net_cents + self.tax_cents


async def set_seller(tx: Tx, seller: Seller, *, actor: str) -> bool:
    """Set who sells. Documents that exist keep what they say. Return whether that is a change."""
    is_changed = await invoices.set_seller(tx, **asdict(seller))
    if is_changed:
        await tx.audit("seller_changed", entity_type="organization", entity_id=tx.organization, actor=actor)
    return is_changed


async def seller_of(tx: Tx) -> Seller:
    """Return who sells: what the organization has set, or else its name."""
    row = await invoices.seller(tx)
    if row is None:
        raise NoOrganization
    return Seller(**{name: row[name] for name in Seller.__slots__})


async def set_billing(tx: Tx, checkout_id: UUID, billing: Billing, *, actor: str) -> bool:
    """Set the company that the invoice of an order is for. Return whether an issued invoice is replaced."""
    checkout = await sales.lock(tx, checkout_id)
    if checkout is None:
        raise NotFound(f"there is no order {checkout_id}")
    if checkout["status"] not in ("started", "failed", "completed"):
        raise CheckoutClosed(f"this order is {checkout['status']}: its invoice stays as it is")
    if await has_billing(tx, checkout_id, billing):
        return False
    issued = await invoices.issued(tx, checkout_id)
    if sum(row["kind"] == "invoice" for row in issued) > MOST_CORRECTIONS:
        raise TooMany(f"the invoice was corrected {MOST_CORRECTIONS} times: contact the organizer")
    version = await invoices.set_billing(tx, checkout_id, **asdict(billing))
    await tx.audit("billing_changed", entity_type="Checkout", entity_id=checkout_id, actor=actor)
    if issued:
        await tx.enqueue(jobs.number_invoices, checkout_id=checkout_id, version=version)
    return bool(issued)


async def has_billing(tx: Tx, checkout_id: UUID, billing: Billing) -> bool:
    """Return whether the order has this company already. Locks the order: a request at the same time comes before or
    after."""
    await sales.lock(tx, checkout_id)
    before = await invoices.billing(tx, checkout_id)
    return before is not None and all(before[name] == value for name, value in asdict(billing).items())


async def issue(tx: Tx, wanted: Sequence[Mapping[str, Any]]) -> int:
    """Issue what the jobs ask for: invoices of sales, credit notes of refunds, corrections. Return how many were
    issued.

    The counter stays locked until the commit: two batches of one organization follow each other, and a batch that rolls
    back uses up no number. A repeat issues nothing twice.
    """
    first = number = await invoices.lock_counter(tx)
    seller = await seller_of(tx)
    # Also of refunds: a credit note is about an invoice, whichever job comes first.
    orders = await invoices.sold(tx, [UUID(each["checkout_id"]) for each in wanted])
    if orders:
        await invoices.add(
            tx, [_row(number + n, "invoice", order, document(order, seller)) for n, order in enumerate(orders, 1)]
        )
        number += len(orders)
    for each in wanted:
        if each.get("refund_id") or each.get("version"):
            rows = await _changed(tx, seller, number, each)
            await invoices.add(tx, rows)
            number += len(rows)
    if number > first:
        await invoices.advance(tx, number - first)
    return number - first


async def _changed(tx: Tx, seller: Seller, number: int, wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the documents of a refund or of a corrected address, with the numbers after `number`."""
    checkout_id = UUID(wanted["checkout_id"])
    issued = await invoices.issued(tx, checkout_id)
    originals = [row for row in issued if row["kind"] == "invoice"]
    original = originals[-1]
    if refund_id := wanted.get("refund_id"):
        if any(row["refund_id"] == UUID(refund_id) for row in issued):
            return []
        tickets = await invoices.refunded(tx, [UUID(id) for id in wanted.get("ticket_ids", ())])
        lines = _lines_of(original["document"], tickets)
        credited = credit(original["document"], wanted["amount_cents"], left=_left(issued), lines=lines)
        if credited["total_cents"] == 0:
            return []  # the bank returned an earlier refund, which has its credit note, and this one takes its place
        return [
            _row(number + 1, "credit_note", original, credited, cancels=original["number"], refund_id=UUID(refund_id))
        ]
    if original["version"] >= wanted["version"]:
        return []
    [order] = await invoices.orders(tx, [checkout_id])
    whole = credit(original["document"], original["document"]["total_cents"])
    return [
        _row(number + 1, "credit_note", original, whole, cancels=original["number"]),
        _row(number + 2, "invoice", order, document(order, seller)),
    ]


def _row(number: int, kind: str, order: Any, content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "number": number,
        "kind": kind,
        "checkout_id": order["checkout_id"],
        "version": order["version"],
        "cancels": more.get("cancels"),
        "refund_id": more.get("refund_id"),
        "document": {**content, "number": f"{content['seller']['prefix']}{number}"},
    }


def document(order: Any, seller: Seller) -> dict[str, Any]:
    """Return an invoice as it is frozen: everything that it says, so that later changes of the event do not change
    it."""
    lines = [
        Line(
            f"{order['event_name']}: {item['place']}",
            item["price_cents"] - item["discount_cents"] - (item["tax_cents"] if order["tax_included"] else 0),
            order["tax_bps"],
            item["tax_cents"],
        )
        for item in order["items"]
    ]
    if order["fee_paid_by"] == "buyer" and order["platform_fee_cents"]:
        lines.append(Line(SERVICE_FEE, order["platform_fee_cents"], 0, 0))
    billing = order["billing"]
    return {
        "seller": asdict(seller),
        "buyer": {
            "name": order["name"],
            "email": order["email"],
            **{name: billing[name] if billing else "" for name in Billing.__slots__},
        },
        "event": {
            "name": order["event_name"],
            "starts_at": order["starts_at"].isoformat(),
            "venue": order["venue_name"],
        },
        "order_id": str(order["checkout_id"]),
        "currency": order["currency"],
        "supplied_at": order["completed_at"].isoformat(),
        "paid_with": order["provider"],
        "jurisdiction": order["jurisdiction"] or "",
        "tax_note": _tax_note(order),
        **_sums(lines),
    }


def _tax_note(order: Any) -> str:
    """Return what the law of the event's jurisdiction makes an invoice say."""
    if order["jurisdiction"] is None:
        return ""
    return rule_of(order["jurisdiction"], order["tax_category"], order["starts_at"].date()).note


def _left(issued: Sequence[Any]) -> list[dict[str, int]]:
    """Return net and tax of each rate that the documents of an order charge and do not credit."""
    sums: dict[int, list[int]] = {}
    for row in issued:
        sign = 1 if row["kind"] == "invoice" else -1
        for rate in row["document"]["rates"]:
            kept = sums.setdefault(rate["tax_bps"], [0, 0])
            kept[0] += sign * rate["net_cents"]
            kept[1] += sign * rate["tax_cents"]
    return [{"tax_bps": bps, "net_cents": net, "tax_cents": tax} for bps, (net, tax) in sorted(sums.items())]


def credit(
    invoice: Mapping[str, Any],
    amount_cents: int,
    *,
    left: Sequence[Mapping[str, int]] | None = None,
    lines: Sequence[Line] = (),
) -> dict[str, Any]:
    """Return a credit note of this amount: `lines`, those of the tickets that are refunded, if they are the amount;
    otherwise the lines of the invoice in the proportion in which money goes back.

    `left` is what earlier credit notes have not credited, by default all of it. Net and tax of each rate add up to the
    amount, and the last credit note credits exactly the rest of the taxes. More than is left is never credited.
    """
    rates = invoice["rates"] if left is None else left
    gross = [rate["net_cents"] + rate["tax_cents"] for rate in rates]
    total = sum(gross)
    if amount_cents >= total == invoice["total_cents"]:
        lines = [Line(each["text"], each["net_cents"], each["tax_bps"], each["tax_cents"]) for each in invoice["lines"]]
    elif not _fits(lines, amount_cents, rates):
        lines = []
        for rate, part in zip(rates, spread(min(amount_cents, total), gross), strict=True):
            net, tax = spread(part, (rate["net_cents"], rate["tax_cents"]))
            lines.append(Line(f"Refund, {invoice['event']['name']}", net, rate["tax_bps"], tax))
    kept = ("seller", "buyer", "event", "order_id", "currency", "paid_with", "jurisdiction")
    return {**{name: invoice[name] for name in kept}, "about": invoice["number"], **_sums(lines)}


def _fits(lines: Sequence[Line], amount_cents: int, left: Sequence[Mapping[str, int]]) -> bool:
    """Return whether lines are this amount, and no rate has more than is left of it."""
    most = {rate["tax_bps"]: (rate["net_cents"], rate["tax_cents"]) for rate in left}
    sums = _sums(lines)
    return sums["total_cents"] == amount_cents and all(
        rate["net_cents"] <= net and rate["tax_cents"] <= tax
        for rate in sums["rates"]
        for net, tax in (most.get(rate["tax_bps"], (0, 0)),)
    )


def _lines_of(invoice: Mapping[str, Any], tickets: Sequence[Any]) -> list[Line]:
    """Return the lines of an invoice that are for these tickets, with their part of the service fee."""
    of = [invoice["lines"][ticket["position"]] for ticket in tickets]
    lines = [Line(each["text"], each["net_cents"], each["tax_bps"], each["tax_cents"]) for each in of]
    if fee := sum(ticket["fee_cents"] for ticket in tickets):
        lines.append(Line(SERVICE_FEE, fee, 0, 0))
    return lines


def _sums(lines: Sequence[Line]) -> dict[str, Any]:
    rates: dict[int, list[int]] = {}
    for line in lines:
        sums = rates.setdefault(line.tax_bps, [0, 0])
        sums[0] += line.net_cents
        sums[1] += line.tax_cents
    return {
        "lines": [asdict(line) for line in lines],
        "rates": [{"tax_bps": bps, "net_cents": net, "tax_cents": tax} for bps, (net, tax) in sorted(rates.items())],
        "total_cents": sum(line.gross_cents for line in lines),
    }
