"""Post what the machine does to the ledger, in the commit of the state. Without `Books` nothing is posted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from onceward.ledger import named_errors

from .declarations import is_by_hand
from .model import Books, Share

Row = Any
Entries = Sequence[tuple[str, str, int]]
"""Debit, credit and amount of each entry. Entries of zero are left out."""

POST = "select onceward.post_payment_journals($1, $2, $3, $4, $5)"
LEFT = """
select number, code, amount - drawn as left from onceward.payment_shares
 where payment_id = $1 and drawn < amount order by number for update
"""
DRAW = """
update onceward.payment_shares s set drawn = drawn + d.amount
  from unnest($2::int[], $3::bigint[]) as d (number, amount) where s.payment_id = $1 and s.number = d.number
"""


@dataclass(frozen=True, slots=True)
class NewJournal:
    """A journal to be posted. `kind` says in its memo, and in lists, what happened."""

    key: str
    kind: str
    entries: Entries


def books_of(books: Books | None, row: Row) -> Books | None:
    """Return the books of a payment: what people record by hand is not cash at a service."""
    return replace(books, cash=books.by_hand) if books is not None and is_by_hand(row["service"]) else books


async def post(
    tx: Any,
    books: Books | None,
    journals: Sequence[NewJournal],
    *,
    currency: str,
    payment_id: Any = None,
    payout_id: Any = None,
) -> None:
    """Post journals and link them to the payment, in one statement. One without entries is left out."""
    used, listed = as_json(books, journals)
    if listed:
        with named_errors():
            await tx.execute(POST, payment_id, payout_id, currency, used, listed)


def as_json(books: Books | None, journals: Sequence[NewJournal]) -> tuple[dict[str, Any] | None, list[Any]]:
    """Return the books and the journals as `post_payment_journals` takes them. Without books nothing is posted."""
    if books is None:
        return None, []
    listed: list[Any] = []
    codes: set[str] = set()
    for each in journals:
        wanted = [entry for entry in each.entries if entry[2] > 0]
        if wanted:
            listed.append({"key": each.key, "kind": each.kind, "entries": wanted})
            codes.update(code for debit, credit, _ in wanted for code in (debit, credit))
    return {"cash": books.cash, "kinds": {code: books.kind(code) for code in codes}}, listed


def received(books: Books | None, row: Row, shares: Sequence[Share] | None) -> list[NewJournal]:
    """Return the journals of money that arrived: to the shares if it was accepted, or (None) as owed to the buyer."""
    books = books_of(books, row)
    if books is None:
        return []
    if shares is None:
        entries = [(books.cash, books.refunds_payable, row["received"])]
    else:
        entries = [(books.cash, each.account, each.amount) for each in shares]
    return [NewJournal(f"payment:{row['id']}:received", "payment received", entries), *fee(books, row)]


def fee(books: Books | None, row: Row) -> list[NewJournal]:
    """Return the journal of what the service took for the payment and is not booked yet."""
    more = row["fee"] - row["booked_fee"]
    if books is None or more == 0:
        return []
    key = f"payment:{row['id']}:fee:{row['fee_bookings'] + 1}"
    return [NewJournal(key, "fee", [signed(books.service_fees, books.cash, more)])]


def signed(debit: str, credit: str, amount: int) -> tuple[str, str, int]:
    """Return an entry whose amount is not negative: the other way round if it was."""
    return (debit, credit, amount) if amount >= 0 else (credit, debit, -amount)


async def paid_back(
    tx: Any,
    books: Books | None,
    row: Row,
    amount: int,
    *,
    key: str,
    from_bank: bool,
    owed: int,
    wanted: Sequence[Share],
) -> None:
    """Post money that went back to the buyer: first what the books owe, then the shares, then what nobody is owed."""
    books = books_of(books, row)
    if books is None:
        return
    credit = books.bank if from_bank else books.cash
    entries: list[tuple[str, str, int]] = [(books.refunds_payable, credit, owed)]
    rest = amount - owed
    for code, part in await _draw(tx, row["id"], rest, wanted):
        entries.append((code, credit, part))
        rest -= part
    # More went back than was received: the buyer owes us the rest.
    entries.append((books.refunds_payable, credit, rest))
    journal = NewJournal(key, "refund", _merged(entries))
    await post(tx, books, [journal], currency=row["currency"], payment_id=row["id"])


async def sent_back(tx: Any, books: Books | None, row: Row, amount: int, *, key: str) -> None:
    """Post a refund that the bank returned: the money is in our account again, and we owe it to the buyer."""
    books = books_of(books, row)
    if books is not None:
        journal = NewJournal(key, "refund returned", [(books.cash, books.refunds_payable, amount)])
        await post(tx, books, [journal], currency=row["currency"], payment_id=row["id"])


async def _draw(tx: Any, payment_id: Any, amount: int, wanted: Sequence[Share]) -> list[tuple[str, int]]:
    """Take an amount from the shares that are left: as the app says, otherwise in proportion. Return what was taken."""
    if amount <= 0:
        return []
    left = [(each["number"], each["code"], each["left"]) for each in await tx.fetch(LEFT, payment_id)]
    taken = _as_wanted(left, wanted) if sum(each.amount for each in wanted) == amount else None
    taken = taken or in_proportion([each[2] for each in left], amount)
    drawn = [(number, code, part) for (number, code, _), part in zip(left, taken, strict=True) if part > 0]
    await tx.execute(DRAW, payment_id, [each[0] for each in drawn], [each[2] for each in drawn])
    return [(code, part) for _, code, part in drawn]


def _as_wanted(left: Sequence[tuple[int, str, int]], wanted: Sequence[Share]) -> list[int] | None:
    """Return how much of each share is taken; None if the shares do not hold what the app wants to take."""
    taken = [0] * len(left)
    for share in wanted:
        rest = share.amount
        for n, (_, code, most) in enumerate(left):
            if code == share.account:
                part = min(rest, most - taken[n])
                taken[n] += part
                rest -= part
        if rest:
            return None
    return taken


def in_proportion(left: Sequence[int], amount: int) -> list[int]:
    """Divide an amount in proportion to what is left, to the last unit. At most all of it is taken."""
    whole = sum(left)
    amount = min(amount, whole)
    if whole == 0:
        return [0] * len(left)
    taken = [part * amount // whole for part in left]
    order = sorted(range(len(left)), key=lambda n: (-(left[n] * amount % whole), n))
    for n in order[: amount - sum(taken)]:
        taken[n] += 1
    return taken


def _merged(entries: Sequence[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    sums: dict[tuple[str, str], int] = {}
    for debit, credit, amount in entries:
        sums[debit, credit] = sums.get((debit, credit), 0) + amount
    return [(debit, credit, amount) for (debit, credit), amount in sums.items()]
