"""An ordinary FastAPI application with Onceward in the same process. Run it with `uvicorn main:api`."""

from fastapi import FastAPI, HTTPException
from shop import app, pack

from onceward.fastapi import Mounted, RequestTx

mounted = Mounted(app)
api = FastAPI(lifespan=mounted.lifespan)


@api.post("/orders/{order}")
async def place_order(order: int, tx: RequestTx) -> dict[str, int]:
    """Create the order and its packing job in one transaction, which is committed before the response is sent."""
    await tx.execute("insert into orders (id) values ($1)", order)
    job = await tx.enqueue(pack, order=order)
    if order < 0:
        raise HTTPException(422, "an order number is positive")  # rolls back the order and the job
    return {"job": job.id}


@api.get("/orders/{order}")
async def read_order(order: int) -> dict[str, bool]:
    """Read through the pool that Onceward uses, without a transaction."""
    packed = await mounted.engine.db.fetchval("select packed from orders where id = $1", order)
    if packed is None:
        raise HTTPException(404, f"there is no order {order}")
    return {"packed": packed}


api.mount("/", mounted)  # last: the routes above come first, everything else is Onceward's
