"""The loops that find what has to be asked about at the payment services, and count what has no end."""

from __future__ import annotations

from functools import partial

from onceward.background import Loop
from onceward.context import Context
from onceward.payments.due import enqueue_due
from onceward.payments.metrics import observe
from onceward.payments.payouts import books_of


def reconciliation(context: Context) -> Loop | None:
    """Run only if an app of this process declares payments. Raises `BooksDiffer` if their books cannot be kept
    together."""
    books_of(context.registry.payments.subjects)
    if not context.registry.payments.subjects:
        return None
    return Loop("payment reconciliation", partial(enqueue_due, context.database, context.engine.waker), every_s=30)


def gauges(context: Context) -> Loop | None:
    """Return the loop that counts what has no end. It runs only if an app of this process declares payments."""
    if not context.registry.payments.subjects:
        return None
    return Loop("payment gauges", partial(observe, context.database), every_s=60, waits_first=True)
