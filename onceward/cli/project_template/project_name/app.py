"""A small shop: a payment webhook creates an order, a job packs it, a schedule reports orders that are late."""

from pathlib import Path

from pydantic import BaseModel

from onceward import Event, Onceward, Run, Tx

app = Onceward("project_name", migrations=Path(__file__).parent / "migrations")


class Payment(BaseModel):
    """The part of a payment's data that the shop needs."""

    order: str
    amount: int


@app.on("checkout", "payment.received")
async def receive_payment(event: Event[Payment], tx: Tx) -> dict[str, str]:
    """Create the order. The order and its packing job exist together, or neither exists."""
    payment = event.data
    await tx.execute("insert into orders (order_id, amount) values ($1, $2)", payment.order, payment.amount)
    await tx.enqueue(pack, order=payment.order)
    return {"order": payment.order}


@app.job(max_attempts=5, timeout=30)
async def pack(tx: Tx, *, order: str) -> None:
    """Pack one order."""
    await tx.execute("update orders set packed_at = onceward.now() where order_id = $1", order)


@app.cron("0 7 * * *", name="late-orders")
async def report_late_orders(run: Run) -> None:
    """Notify the administrators every morning about orders that nobody has packed."""
    async with run.transaction() as tx:
        late = await tx.fetchval("select count(*) from orders where packed_at is null")
        if late:
            await tx.notify_admins("orders_late", "warn", f"{late} orders are not packed")
