"""The app whose processes `onceward bench start` starts."""

from __future__ import annotations

from onceward import Onceward

app = Onceward("bench")


@app.job
async def first() -> None:
    """Tell the benchmark that the worker runs."""
    print("handled", flush=True)
