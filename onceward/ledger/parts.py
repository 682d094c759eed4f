"""The part of a process that keeps balances cheap to read."""

from __future__ import annotations

from functools import partial

from onceward.context import Context
from onceward.ledger import checkpoint
from onceward.work import Loop


def checkpoints(context: Context) -> Loop:
    return Loop("ledger checkpoints", partial(checkpoint, context.database), every_s=60)
