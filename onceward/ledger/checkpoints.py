"""Fold entries into checkpoints, so that a balance reads few entries.

Any node may run it; a missed run costs only time.
"""

from __future__ import annotations

from typing import cast

from onceward.db import Database


async def checkpoint(db: Database) -> int:
    """Return the number of folded entries.

    The first run after new entries proposes a limit; a later run folds up to it.
    """
    return cast(int, await db.fetchval("select onceward.ledger_checkpoint()"))
