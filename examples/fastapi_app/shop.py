"""The Onceward app: jobs, webhooks and schedules. The FastAPI application is in `main.py`."""

from pathlib import Path

from onceward import Onceward, Tx

app = Onceward("shop", migrations=Path(__file__).parent / "migrations")


@app.job
async def pack(tx: Tx, *, order: int) -> None:
    await tx.execute("update orders set packed = true where id = $1", order)
