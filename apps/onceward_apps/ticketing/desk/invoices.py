"""What organizers do about invoices: say who sells, and put a company on the invoice of an order."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act, LongText
from onceward.web.dashboard import ActionRefused
from onceward_apps.ticketing import invoice_book
from onceward_apps.ticketing.desk.lists import INVOICES, ORDERS, desk


class SellerForm(BaseModel):
    """Who sells, on invoices from now on."""

    name: str = Field(title="Name of the seller", min_length=1, max_length=200)
    address: Annotated[str, LongText()] = Field("", title="Address", max_length=500)
    tax_id: str = Field("", title="Tax id", max_length=60)
    prefix: str = Field("", title="Before the number", max_length=20, pattern=r"^[A-Za-z0-9/._-]*$")
    footer: Annotated[str, LongText()] = Field("", title="At the end of each invoice", max_length=500)


class CompanyForm(BaseModel):
    """The company that an invoice is for."""

    company: str = Field(title="Company", min_length=1, max_length=200)
    address: Annotated[str, LongText()] = Field("", title="Address", max_length=500)
    tax_id: str = Field("", title="Tax id", max_length=60)


@desk.action(INVOICES, "Set the seller", on="list", model=SellerForm, roles=("manager",))
async def set_seller(tx: Tx, act: Act[SellerForm]) -> str:
    if not await invoice_book.set_seller(tx, invoice_book.Seller(**act.given.model_dump()), actor=act.by.actor):
        raise ActionRefused("invoices name this seller already")
    return "Invoices from now on name this seller. Those that exist stay as they are."


@desk.action(
    ORDERS,
    "Invoice for a company",
    model=CompanyForm,
    when="r.status in ('started', 'failed', 'completed')",
    roles=("manager",),
)
async def set_company(tx: Tx, act: Act[CompanyForm]) -> str:
    billing = invoice_book.Billing(**act.given.model_dump())
    if await invoice_book.has_billing(tx, UUID(act.id), billing):
        raise ActionRefused("the invoice names this company already")
    if await invoice_book.set_billing(tx, UUID(act.id), billing, actor=act.by.actor):
        return "A credit note cancels the invoice, and a new one names the company."
    return "The invoice names the company."
