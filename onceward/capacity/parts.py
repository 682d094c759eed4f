"""The loop that ends expired holds."""

from __future__ import annotations

from functools import partial

from onceward.background import Loop
from onceward.capacity import reap
from onceward.context import Context


def expired_holds(context: Context) -> Loop:
    return Loop("expired holds", partial(reap, context.database), every_s=30)
