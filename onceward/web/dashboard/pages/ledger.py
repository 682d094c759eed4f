"""The ledger: balances of each currency that must come to nothing together, and the statement of an account."""

from __future__ import annotations

from typing import Any, cast

from onceward.db import Transaction
from onceward.ledger import InvalidEntry, UnknownAccount, statement, trial_balance
from onceward.web.dashboard.looking import Looking, Missing, Page

PAGE = 100


class _Acting:
    """The ledger asks its transaction whom it acts for; a live query knows the same under another name."""

    def __init__(self, looking: Looking) -> None:
        self.organization = looking.organization
        self.fetch = looking.conn.fetch
        self.fetchrow = looking.conn.fetchrow
        self.fetchval = looking.conn.fetchval


async def load(looking: Looking) -> dict[str, Any]:
    books = [] if looking.everything else await trial_balance(cast(Transaction, _Acting(looking)))
    return {"title": "Ledger", "books": books, "choose": looking.everything}


async def load_account(looking: Looking) -> dict[str, Any]:
    code, currency, after = looking.text("code"), looking.text("currency"), looking.number("after") or 0
    if looking.everything:
        raise Missing("choose an organization to see its accounts")
    try:
        rows = await statement(
            cast(Transaction, _Acting(looking)), code, currency=currency, after=after, limit=PAGE + 1
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
