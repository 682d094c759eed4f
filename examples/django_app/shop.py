"""The Onceward app of a Django project. A worker runs it: `onceward worker shop:app`."""

from onceward import Onceward, Tx

app = Onceward("shop")


@app.job
async def pack(tx: Tx, *, order: int) -> None:
    await tx.execute("update shop_order set packed = true where id = $1", order)
