"""Compare one payment, or one payout, with the movements of the service's balance. Pure: no call, no clock, no SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from onceward.money import Money

from .movements import payout_of
from .service import BalanceLine

Row = Any
Kind = Literal[
    "payment_not_at_service", "payment_amount", "refund_not_here", "refund_not_at_service", "refund_amount",
    "dispute", "balance", "ledger", "fee", "payout_not_here", "payout_amount",
]  # fmt: skip
OF_CHARGES = frozenset({"payment", "refund", "refund_failed", "dispute", "dispute_won", "fee"})


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that the service and our tables do not agree about. `reference` is an id at the service."""

    kind: Kind
    reference: str
    detail: str
    organization: UUID
    payment_id: UUID | None = None


def compare_payment(row: Row, lines: Sequence[BalanceLine]) -> Iterator[Difference]:
    """Yield how the movements of a charge differ from a row of `compare_payments.sql`.

    The rest of the difference, which no payment or refund of another amount explains, is that of disputes.
    """
    currency: str = row["currency"]
    charge: str = row["charge"] or row["names"][0]

    def found(kind: Kind, reference: str, detail: str) -> Difference:
        return Difference(kind, reference, detail, row["organization_id"], row["id"])

    def written(amount: int) -> str:
        return str(Money(amount, currency))

    fees = sum(each.fee.amount - (each.amount.amount if each.kind == "fee" else 0) for each in lines)
    lines = [each for each in lines if each.kind != "fee"]
    if row["booked"] is not None and row["booked"] != row["held"]:
        text = f"the journals hold {written(row['booked'])}, our tables {written(row['held'])}"
        yield found("ledger", charge, text)
    paid = [each for each in lines if each.kind == "payment"]
    # A charge in another currency than the balance is converted by the service: its amounts cannot be compared.
    is_same = all(each.amount.currency == currency for each in lines)
    rest = _sum(lines) - row["held"]
    if not paid and row["is_new"]:
        text = f"we received {written(row['received'])}, and the service has no such payment"
        yield found("payment_not_at_service", charge, text)
        return
    if paid and is_same and _sum(paid) != row["received"]:
        text = f"the service received {written(_sum(paid))}, our tables say {written(row['received'])}"
        yield found("payment_amount", charge, text)
        rest -= _sum(paid) - row["received"]
    for kind, reference, text, amount in _refunds(row, lines, has_all=bool(paid), is_same=is_same):
        yield found(kind, reference, text)
        rest -= amount
    if paid and is_same and rest != 0:
        is_disputed = row["withheld"] > 0 or any(each.kind.startswith("dispute") for each in lines)
        text = f"the service holds {written(_sum(lines))}, our tables say {written(row['held'])}"
        yield found("dispute" if is_disputed else "balance", charge, text)
    if paid and is_same and fees != row["fees"]:
        text = f"the service took fees of {written(fees)}, our tables say {written(row['fees'])}"
        yield found("fee", charge, text)


def _refunds(
    row: Row, lines: Sequence[BalanceLine], *, has_all: bool, is_same: bool
) -> Iterator[tuple[Kind, str, str, int]]:
    """Yield the refunds that differ, each with what it adds to the balance at the service compared with our tables."""
    at_service: dict[str, int] = {}
    for line in lines:
        if line.kind in ("refund", "refund_failed"):
            name = line.source or line.reference
            at_service[name] = at_service.get(name, 0) - line.amount.amount
    here: dict[str, int] = {}
    for refund in row["refunds"]:
        here.update(dict.fromkeys(refund["earlier"], 0))
        if refund["reference"] is not None:
            here[refund["reference"]] = refund["amount"] if refund["status"] == "done" else 0
    is_new = {each["reference"] for each in row["refunds"] if each["is_new"]}
    for reference, amount in at_service.items():
        money = Money(amount, row["currency"]) if is_same else "an amount in another currency"
        if reference not in here and amount == 0:
            continue  # it failed at once, so the buyer never had the money
        if reference not in here:
            yield (
                "refund_not_here",
                reference,
                f"the service refunded {money}, and our tables have no such refund",
                -amount,
            )
        elif is_same and amount != here[reference] and (has_all or reference in is_new):
            ours = Money(here[reference], row["currency"])
            text = f"the service refunded {money}, our tables say {ours}"
            yield "refund_amount", reference, text, here[reference] - amount
    for reference, amount in here.items():
        if amount and reference not in at_service and (has_all or reference in is_new):
            text = f"we refunded {Money(amount, row['currency'])}, and the service has no such refund"
            yield "refund_not_at_service", reference, text, amount


def compare_payouts(organization: UUID, payouts: dict[str, Row], lines: Iterable[BalanceLine]) -> Iterator[Difference]:
    """Yield the payouts of an organization's own account that our tables lack, or have with another amount."""
    sums: dict[str, int] = {}
    currency: dict[str, str] = {}
    for line in lines:
        reference = payout_of(line)
        sums[reference] = sums.get(reference, 0) - line.amount.amount
        currency[reference] = line.amount.currency
    for reference, amount in sums.items():
        sent = Money(amount, currency[reference])
        row = payouts.get(reference)
        if row is None:
            text = f"the service paid out {sent}, and our tables have no such payout"
            yield Difference("payout_not_here", reference, text, organization)
        elif Money(0 if row["status"] == "failed" else row["amount"], row["currency"]) != sent:
            ours = Money(row["amount"], row["currency"])
            text = f"the service paid out {sent}, our tables say {ours}, {row['status']}"
            yield Difference("payout_amount", reference, text, organization)


def _sum(lines: Iterable[BalanceLine]) -> int:
    return sum(each.amount.amount for each in lines)
