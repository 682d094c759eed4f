"""An app whose handlers misbehave, for `onceward worker tests.work.misbehaving:app` in a process of its own."""

from __future__ import annotations

import asyncio
import sys
import time

from onceward import Onceward, Tx

app = Onceward("misbehaving")


@app.job(timeout=60)
async def block() -> None:
    """Block the event loop."""
    time.sleep(60)  # noqa: ASYNC251


@app.job(timeout=60)
async def innocent(tx: Tx) -> None:
    await tx.execute("select 1")
    await asyncio.sleep(60)


@app.job(timeout=60)
async def exit_in_task() -> None:
    """Exit from a task of its own: the exception ends the event loop, not the handler."""

    async def leave() -> None:
        sys.exit(3)

    await asyncio.create_task(leave())


@app.job(timeout=0.2)
def hang() -> None:
    time.sleep(60)


@app.job(timeout=0.2)
async def swallow() -> None:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue
