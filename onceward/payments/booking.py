"""Post what the machine does to the ledger, in the commit of the state. Without `Books` nothing is posted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceward.ledger import Entry, open_account, post

from .model import Books, Share

Row = Any

LINK = """
insert into onceward.payment_journals (journal_id, payment_id, payout_id, kind, cash, cash_code) values ($1, $2, $3,
$4, $5, $6)
"""
ADD_SHARES = """
insert into onceward.payment_shares (payment_id, number, code, amount)
select $1, n, code, amount from unnest($2::text[], $3::bigint[]) with ordinality as s (code, amount, n)
"""
LEFT = """
select number, code, amount - drawn as left from onceward.payment_shares
 where payment_id = $1 and drawn < amount order by number for update
"""
DRAW = """
update onceward.payment_shares s set drawn = drawn + d.amount
  from unnest($2::int[], $3::bigint[]) as d (number, amount) where s.payment_id = $1 and s.number = d.number
"""


async def post_entries(
    tx: Any,
    books: Books | None,
    entries: Sequence[tuple[str, str, int]],
    *,
    currency: str,
    key: str,
    kind: str,
    payment_id: Any = None,
    payout_id: Any = None,
) -> None:
    """Post entries (debit, credit, amount) as one journal and link it to the payment. Entries of zero are left out."""
    wanted = [each for each in entries if each[2] > 0]
    if books is None or not wanted:
        return
    for code in sorted({code for debit, credit, _ in wanted for code in (debit, credit)}):
        await open_account(tx, code, currency=currency, kind=books.kind(code))
    journal = await post(
        tx, [Entry(debit, credit, amount, currency) for debit, credit, amount in wanted], key=key, memo=kind
    )
    cash = sum(amount for debit, _, amount in wanted if debit == books.cash)
    cash -= sum(amount for _, credit, amount in wanted if credit == books.cash)
    await tx.execute(LINK, journal.id, payment_id, payout_id, kind, cash, books.cash)


async def received(tx: Any, books: Books | None, row: Row, shares: Sequence[Share] | None) -> None:
    """Post money that arrived: to the shares of an accepted payment, or (None) as owed to the buyer."""
    if books is None:
        return
    if shares is None:
        entries = [(books.cash, books.refunds_payable, row["received"])]
    else:
        entries = [(books.cash, each.account, each.amount) for each in shares]
        await tx.execute(ADD_SHARES, row["id"], [each.account for each in shares], [each.amount for each in shares])
    await post_entries(
        tx,
        books,
        entries,
        currency=row["currency"],
        key=f"payment:{row['id']}:received",
        kind="payment received",
        payment_id=row["id"],
    )


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
    await post_entries(
        tx, books, _merged(entries), currency=row["currency"], key=key, kind="refund", payment_id=row["id"]
    )


async def sent_back(tx: Any, books: Books | None, row: Row, amount: int, *, key: str) -> None:
    """Post a refund that the bank returned: the money is in our account again, and we owe it to the buyer."""
    if books is not None:
        entries = [(books.cash, books.refunds_payable, amount)]
        await post_entries(
            tx, books, entries, currency=row["currency"], key=key, kind="refund returned", payment_id=row["id"]
        )


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
