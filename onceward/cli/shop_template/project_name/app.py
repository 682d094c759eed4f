"""A shop that is paid: an order gets a payment page, and the first payment sells it. Every other one goes back."""

from pathlib import Path
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from onceward import Engine, Onceward, Tx
from onceward.money import Money
from onceward.payments import Accept, Books, Page, Payment, Refund, Return
from onceward.trust import find_organization
from onceward.web import ANYBODY, engine_of, exposed

app = Onceward("project_name", migrations=Path(__file__).parent / "migrations")
app.payments.books(Books(revenue="sales"))
app.payments.account("main", service="stripe", source="checkout")
router = APIRouter()
Product = Annotated[str, Query(min_length=1, max_length=100)]


async def open_order(tx: Tx, product: str) -> Page:
    """Store an order, and open the page on which it is paid."""
    order = await tx.fetchval("insert into orders (product, price) values ($1, 4200) returning id", product)
    return await tx.payments.open(
        "order", order, amount=Money(4200, "EUR"), title=product, account="main", success_url=app.services.settings.url
    )


@app.payments.on_paid("order")
async def sell(payment: Payment, tx: Tx) -> Accept | Return:
    """Sell the order. It is sold in one commit with the payment and its journal."""
    sell_once = "update orders set state = 'sold' where id = $1 and state = 'open' returning id"
    sold = await tx.fetchval(sell_once, UUID(payment.subject_id))
    return Accept() if sold is not None and payment.is_exact else Return("this order is not for sale")


@app.payments.on_refunded("order")
async def take_back(refund: Refund, tx: Tx) -> None:
    """Take the order back once the buyer has all of the money."""
    if refund.payment.decision == "accepted" and refund.is_full:
        await tx.execute("update orders set state = 'returned' where id = $1", UUID(refund.payment.subject_id))


@router.post("/organizations/{organization}/orders", status_code=201)
@exposed("call", credential=ANYBODY, limit="one page at the payment service per order")
async def order(engine: Annotated[Engine, Depends(engine_of)], organization: str, product: Product) -> dict[str, str]:
    """Take an order, and return where to pay."""
    async with engine.db.acquire() as conn:
        owner = await find_organization(conn, organization)
    async with engine.transaction(organization=owner.organization_id) as tx:
        return {"pay": (await open_order(tx, product)).url}


app.routes(router)
