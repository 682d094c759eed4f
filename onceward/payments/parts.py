"""The loop that finds what has to be asked about at the payment services."""

from __future__ import annotations

from functools import partial

from onceward.background import Loop
from onceward.context import Context
from onceward.payments.due import enqueue_due


def reconciliation(context: Context) -> Loop | None:
    """Run only if an app of this process declares payments."""
    if not context.registry.payments.subjects:
        return None
    return Loop("payment reconciliation", partial(enqueue_due, context.database, context.engine.waker), every_s=30)
