"""Fold entries into checkpoints: a balance then reads few. Any node may run it; a missed run costs time only."""

from __future__ import annotations

from typing import cast

from onceward.db import Database


async def checkpoint(db: Database) -> int:
    """How many entries were folded. The first run after new entries proposes, a later one folds what is then safe."""
    return cast(int, await db.fetchval("select onceward.ledger_checkpoint()"))
