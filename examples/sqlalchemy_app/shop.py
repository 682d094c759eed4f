"""An app whose tables belong to SQLAlchemy. Jobs use a session in the transaction of the worker."""

from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from onceward import Onceward, Tx
from onceward.sqlalchemy import session_of

app = Onceward("shop")
app.event_type("order.placed", sample={"order": 1}, description="A customer has placed an order.")


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    packed: Mapped[bool] = mapped_column(default=False)


@app.job
async def pack(tx: Tx, *, order: int) -> None:
    async with session_of(tx) as session:
        found = await session.get_one(Order, order)
        found.packed = True
