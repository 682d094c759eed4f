"""The loop that folds entries into checkpoints, so that balances stay fast to read."""

from __future__ import annotations

from functools import partial

from onceward.background import Loop
from onceward.context import Context
from onceward.ledger import checkpoint


def checkpoints(context: Context) -> Loop:
    return Loop("ledger checkpoints", partial(checkpoint, context.database), every_s=60)
