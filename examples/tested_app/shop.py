"""A small shop: a payment webhook creates an order, a job packs it, a schedule reports what is late."""

from pathlib import Path

from pydantic import BaseModel

from onceward import Event, Job, Onceward, Run, Tx

HERE = Path(__file__).parent
app = Onceward("shop", migrations=HERE / "migrations")
app.templates(HERE / "templates")
app.event_type("order.packed", sample={"order": "o-1"}, description="An order has been packed.")


class Payment(BaseModel):
    order: str
    amount: int
    email: str


@app.on("shop-payments", "payment.received")
async def receive_payment(event: Event[Payment], tx: Tx) -> None:
    payment = event.data
    await tx.execute("insert into shop.orders (order_id, amount) values ($1, $2)", payment.order, payment.amount)
    await tx.enqueue(pack, order=payment.order)
    await tx.send("order-received", to=payment.email, key=f"received:{payment.order}", data={"order": payment.order})


@app.job
async def pack(job: Job, tx: Tx, *, order: str) -> str:
    await tx.execute("update shop.orders set packed_at = onceward.now() where order_id = $1", order)
    await tx.publish("order.packed", {"order": order}, key=f"packed:{order}")
    await tx.broadcast(f"orders/{order}", {"state": "packed"})
    return order


@app.cron("0 7 * * *", name="late-orders")
async def report_late_orders(run: Run) -> None:
    async with run.transaction() as tx:
        late = await tx.fetchval("select count(*) from shop.orders where packed_at is null")
        if late:
            await tx.notify_admins("orders_late", "warn", f"{late} orders are not packed")
