"""An existing program with psycopg 3 enqueues jobs in its own transactions."""

import psycopg

from onceward import Onceward, Tx, enqueue_sql

app = Onceward("shop")


@app.job
async def pack(tx: Tx, *, order: int) -> None:
    await tx.execute("update orders set packed = true where id = $1", order)


def place_order(connection: psycopg.Connection, order: int) -> int:
    """Create the order and its job. Returns the id of the job."""
    text, parameters = enqueue_sql(pack.unique(f"order:{order}").call(order=order), paramstyle="format")
    with connection.transaction():
        connection.execute("insert into orders (id) values (%s)", (order,))
        row = connection.execute(text.encode(), parameters).fetchone()
        assert row is not None
        return row[0]
