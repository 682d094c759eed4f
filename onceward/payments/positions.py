"""Keep the sums and the state of a payment, and book disputes, after anything about its money changed.

Disputes are booked by difference: what the service withholds now, minus what was posted. What the buyer got by refunds
cannot be
lost a second time. So a refund and a dispute of the same money end in the same books in whichever order they are
reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import booking, store
from .booking import NewJournal, signed
from .model import Books

Row = Any


async def update(tx: Any, books: Books | None, row: Row) -> Row:
    """Book the differences, store sums and state, and return the payment. The caller has locked it."""
    disputes = await tx.fetch(store.DISPUTES, row["id"])
    targets = _targets(row, disputes)
    for dispute, target in zip(disputes, targets, strict=True):
        await _book_dispute(tx, books, row, dispute, target)
    values: dict[str, Any] = {"withheld": sum(targets), "status": _status(row, disputes, targets)}
    if row["fee"] != row["booked_fee"]:
        await booking.post(tx, books, booking.fee(books, row), currency=row["currency"], payment_id=row["id"])
        values |= {"booked_fee": row["fee"], "fee_bookings": row["fee_bookings"] + 1}
    return store.merged(row, await store.change(tx, "payments", row["id"], **values))


def _targets(row: Row, disputes: Sequence[Row]) -> list[int]:
    """Return what each dispute takes: as the service says, otherwise what refunds and earlier disputes have left."""
    left = max(0, row["received"] - (row["refunded"] - row["settled"]))
    targets: dict[Any, int] = {}
    for dispute in sorted(disputes, key=lambda each: each["is_reversal"]):
        if dispute["reported"] is not None:
            target = dispute["reported"]
        elif dispute["status"] in ("open", "lost"):
            target = min(dispute["amount"], left)
        else:
            target = 0
        if dispute["is_reversal"]:
            # The reversal takes what its dispute takes: only what no dispute has taken is its own.
            target = max(0, target - sum(targets.values()))
        left = max(0, left - target)
        targets[dispute["id"]] = target
    return [targets[dispute["id"]] for dispute in disputes]


async def _book_dispute(tx: Any, books: Books | None, row: Row, dispute: Row, taken: int) -> None:
    lost = taken if dispute["status"] == "lost" else 0
    more, more_lost = taken - dispute["booked_taken"], lost - dispute["booked_lost"]
    more_fee = dispute["fee"] - dispute["booked_fee"]
    if (more, more_lost, more_fee, taken) == (0, 0, 0, dispute["taken"]):
        return
    if books is not None:
        entries = [
            signed(books.disputed, books.cash, more),
            signed(books.dispute_losses, books.disputed, more_lost),
            signed(books.service_fees, books.cash, more_fee),
        ]
        journal = NewJournal(f"dispute:{dispute['id']}:{dispute['bookings'] + 1}", "dispute", entries)
        await booking.post(tx, books, [journal], currency=row["currency"], payment_id=row["id"])
    await store.change(
        tx,
        "payment_disputes",
        dispute["id"],
        taken=taken,
        booked_taken=taken,
        booked_lost=lost,
        booked_fee=dispute["fee"],
        bookings=dispute["bookings"] + 1,
    )


def _status(row: Row, disputes: Sequence[Row], targets: Sequence[int]) -> str:
    if row["received"] == 0:
        return row["status"]
    if any(each["status"] == "open" for each in disputes):
        return "disputed"
    if any(each["status"] == "lost" and taken > 0 for each, taken in zip(disputes, targets, strict=True)):
        return "lost"
    if row["refunded"] == 0:
        return "paid"
    return "refunded" if row["refunded"] >= row["received"] else "partly_refunded"
