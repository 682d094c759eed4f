"""Place an order from code that has a SQLAlchemy session, or that gets one from Onceward."""

import json

from shop import Order, pack
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from onceward import Engine, enqueue_sql
from onceward.sqlalchemy import session_of

PUBLISH = text("select onceward.publish('order.placed', cast(:data as json), key => :key)")


def place_order(session: Session, order: int) -> None:
    """Use your own synchronous session. The caller commits it; then order, job and event exist, or none of them."""
    session.add(Order(id=order))
    statement, parameters = enqueue_sql(pack.call(order=order), paramstyle="named")
    session.execute(text(statement), parameters)
    session.execute(PUBLISH, {"data": json.dumps({"order": order}), "key": f"placed:{order}"})


async def place_order_async(session: AsyncSession, order: int) -> None:
    """Use your own asynchronous session."""
    session.add(Order(id=order))
    statement, parameters = enqueue_sql(pack.call(order=order), paramstyle="named")
    await session.execute(text(statement), parameters)
    await session.execute(PUBLISH, {"data": json.dumps({"order": order}), "key": f"placed:{order}"})


async def place_order_with_tx(engine: Engine, order: int, *, email: str) -> None:
    """Let Onceward open the transaction, and use a session in it. `tx` can do more: send, broadcast, audit."""
    async with engine.transaction() as tx:
        async with session_of(tx) as session:
            session.add(Order(id=order))
        await tx.enqueue(pack, order=order)
        await tx.publish("order.placed", {"order": order}, key=f"placed:{order}")
        data = {"title": "Thank you", "body": f"We have received order {order}."}
        await tx.send("notification", to=email, key=f"placed:{order}", data=data)
