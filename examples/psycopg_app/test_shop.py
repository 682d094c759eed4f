"""The order and its job exist together."""

import psycopg
import pytest
from shop import place_order

from onceward import Engine
from onceward.testing import drain

TABLE = (
    "create table orders (id int primary key, packed boolean not null default false); grant all on orders to "
    "onceward_app"
)


async def test_a_job_exists_if_and_only_if_its_order_exists(
    onceward_engine: Engine, onceward_database_url: str
) -> None:
    db = onceward_engine.db
    await db.execute(TABLE)
    with psycopg.connect(onceward_database_url, autocommit=True) as connection:
        job = place_order(connection, 7)
        with pytest.raises(psycopg.errors.UniqueViolation):
            place_order(connection, 7)
        with pytest.raises(ZeroDivisionError), connection.transaction():
            place_order(connection, 8)
            raise ZeroDivisionError
    assert [row["id"] for row in await db.fetch("select id from onceward.jobs")] == [job]

    await drain(onceward_engine)
    assert [tuple(row) for row in await db.fetch("select id, packed from orders")] == [(7, True)]
