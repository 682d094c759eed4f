"""The ledger pages: the trial balance of each currency, and the statement of an account."""

from __future__ import annotations

from typing import Any, cast

from onceward.db import Transaction
from onceward.ledger import InvalidEntry, UnknownAccount, statement, trial_balance
from onceward.web.dashboard.page import Missing, Page, View

PAGE = 100


class _ViewTransaction:
    """Adapts a page's view to the transaction that the ledger's functions expect."""

    def __init__(self, view: View) -> None:
        self.organization = view.organization
        self.fetch = view.conn.fetch
        self.fetchrow = view.conn.fetchrow
        self.fetchval = view.conn.fetchval


async def load(view: View) -> dict[str, Any]:
    books = [] if view.everything else await trial_balance(cast(Transaction, _ViewTransaction(view)))
    return {"title": "Ledger", "books": books, "choose": view.everything}


async def load_account(view: View) -> dict[str, Any]:
    code, currency, after = view.text("code"), view.text("currency"), view.number("after") or 0
    if view.everything:
        raise Missing("choose an organization to see its accounts")
    try:
        rows = await statement(
            cast(Transaction, _ViewTransaction(view)), code, currency=currency, after=after, limit=PAGE + 1
        )
    except (UnknownAccount, InvalidEntry) as error:
        raise Missing(str(error)) from None
    more = len(rows) > PAGE
    rows = rows[:PAGE]
    return {
        "title": f"{code} {currency}",
        "crumbs": ("Ledger", "/dashboard/ledger"),
        "code": code,
        "currency": currency,
        "lines": rows,
        "next": rows[-1].entry_id if more else None,
        "after": after,
    }


PAGES = (
    Page(name="ledger", path="/dashboard/ledger", title="Ledger", section="ledger", load=load, every_s=3.0),
    Page(
        name="account",
        path="/dashboard/ledger/{currency}/{code:path}",
        title="Account",
        section="ledger",
        load=load_account,
        every_s=3.0,
    ),
)
