"""Each way to place an order creates the order, the job and the event together, or nothing."""

from typing import Any

import pytest
from orders import place_order, place_order_async, place_order_with_tx
from shop import Base
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from onceward import Engine
from onceward.testing import assert_published, assert_sent, drain


class Declined(Exception):
    """The customer's card was declined after everything was written."""


@pytest.fixture
def tables(onceward_database_url: str) -> Any:
    """The SQLAlchemy engine of the application, and its tables. Jobs act as `onceward_app` and need a grant."""
    engine = create_engine(onceward_database_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        Base.metadata.create_all(connection)
        connection.exec_driver_sql("grant select, insert, update on orders to onceward_app")
    yield engine
    engine.dispose()


async def outcome(engine: Engine) -> tuple[list[Any], int]:
    await drain(engine)
    rows = await engine.db.fetch("select id, packed from orders order by id")
    return [tuple(row) for row in rows], await engine.db.fetchval("select count(*) from onceward.published")


async def test_a_synchronous_session(tables: Any, onceward_engine: Engine) -> None:
    with Session(tables) as session, session.begin():
        place_order(session, 1)
    with pytest.raises(Declined):
        with Session(tables) as session, session.begin():
            place_order(session, 2)
            raise Declined
    assert await outcome(onceward_engine) == ([(1, True)], 1)


async def test_an_asynchronous_session(tables: Any, onceward_engine: Engine, onceward_database_url: str) -> None:
    engine = create_async_engine(onceward_database_url.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session, session.begin():
        await place_order_async(session, 1)
    with pytest.raises(Declined):
        async with AsyncSession(engine) as session, session.begin():
            await place_order_async(session, 2)
            raise Declined
    await engine.dispose()
    assert await outcome(onceward_engine) == ([(1, True)], 1)


async def test_a_session_in_a_transaction_of_onceward(tables: Any, onceward_engine: Engine) -> None:
    await place_order_with_tx(onceward_engine, 1, email="ada@example.com")
    await assert_sent(onceward_engine, "notification", to="ada@example.com", count=1)
    await assert_published(onceward_engine, "order.placed", data={"order": 1}, count=1)
    assert await outcome(onceward_engine) == ([(1, True)], 1)
