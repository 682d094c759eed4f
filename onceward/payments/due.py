"""Find what has to be asked about, closed or listed, and enqueue a job for each. Any node may run it."""

from __future__ import annotations

import json
from typing import Any

from onceward.db import Database
from onceward.statements import read_statement
from onceward.work import Item, Options, Waker, insert

from .declarations import is_by_hand, payment_services
from .job_queue import ASK, BATCH, CHECK, CLOSE, LIST, QUEUE

TAKE_DUE = read_statement("payments", "take_due")
TAKE_CLOSING = read_statement("payments", "take_closing")
TAKE_ACCOUNTS = read_statement("payments", "take_accounts")
TAKE_BATCHES = read_statement("payments", "take_batches")
TAKE_CHECKS = read_statement("payments", "take_checks")
PRUNE_EARLY = "delete from onceward.payment_early where received_at < onceward.now() - interval '30 days'"
MOST = 200
KINDS = {"payment": "payments", "refund": "payment_refunds", "dispute": "payment_disputes", "plan": "payment_plans"}


async def enqueue_due(db: Database, waker: Waker) -> int:
    """Enqueue the jobs of everything that is due, and return how many. Each table has its own share of a step."""
    by_hand = [name for name in payment_services() if is_by_hand(name)]  # nothing to list, no balance to compare
    async with db.transaction(role="engine") as tx:
        items: list[Item] = []
        for row in await tx.fetch(TAKE_CLOSING, MOST):  # first: closing a page answers the question about it, too
            items.append(_item(CLOSE, {"payment_id": row["id"]}, f"close:{row['id']}:now", row))
        for kind, table in KINDS.items():
            rows = await tx.fetch(TAKE_DUE.replace("{table}", table), MOST)
            items += [_item(ASK, {"kind": kind, "id": row["id"]}, f"ask:{kind}:{row['id']}", row) for row in rows]
        for row in await tx.fetch(TAKE_ACCOUNTS, by_hand):
            items.append(_item(LIST, {"account_id": row["id"]}, f"list:{row['id']}", row))
        for row in await tx.fetch(TAKE_BATCHES, MOST):
            items.append(_item(BATCH, {"batch_id": row["id"]}, f"batch:{row['id']}", row))
        for row in await tx.fetch(TAKE_CHECKS, by_hand):
            items.append(_item(CHECK, {"account_id": row["id"]}, f"check:{row['id']}", row))
        await tx.execute(PRUNE_EARLY)
        if items:
            await insert(tx.conn, items)
            tx.after_commit(lambda: waker.wake(QUEUE))
    return len(items)


def _item(task: str, arguments: dict[str, Any], key: str, row: Any) -> Item:
    options = Options(unique_key=key, on_conflict="ignore")
    return Item(task, json.dumps(arguments, default=str), QUEUE, options, row["organization_id"], None)
