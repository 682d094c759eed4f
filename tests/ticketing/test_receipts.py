"""A receipt shows names in any of the covered alphabets as they were written."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from pypdf import PdfReader

from onceward_apps.ticketing import after_sale, documents
from onceward_apps.ticketing.store import views
from tests.ticketing.office import Office

NOW = datetime(2031, 6, 21, 18, tzinfo=UTC)


def order(**changes: Any) -> dict[str, Any]:
    return {
        "id": "7",
        "organizer": "Riverside",
        "completed_at": NOW,
        "started_at": NOW,
        "starts_at": NOW,
        "timezone": "Europe/Warsaw",
        "event_name": "Night",
        "venue_name": "Stage",
        "venue_address": "Quay 1",
        "name": "Ada",
        "email": "ada@example.com",
        "subtotal_cents": 1200,
        "discount_cents": 0,
        "group_discount_cents": 0,
        "coupon_code": None,
        "fee_paid_by": "buyer",
        "platform_fee_cents": 30,
        "tax_cents": 0,
        "tax_included": False,
        "total_cents": 1230,
        "refunded_cents": 0,
        "currency": "EUR",
        "refund_policy": None,
        "invoice_number": 17,
        **changes,
    }


@pytest.mark.parametrize("name", ["Łódź Dvořák Şükrü", "Ночь музыки", "Ελληνική νύχτα", "ქართული", "สวัสดี"])
def test_a_name_in_another_alphabet_is_written_as_it_is(name: str) -> None:
    pdf = documents.receipt(order(event_name=name, name=name), [{"place": "A 12", "price_cents": 1200}])
    text = PdfReader(io.BytesIO(pdf)).pages[0].extract_text()
    assert f"Paid by {name}" in text
    assert f"{name}: A 12" in text
    assert "Invoice number 17" in text
    assert "?" not in text


def test_a_character_without_a_glyph_does_not_prevent_the_receipt() -> None:
    assert documents.receipt(order(name="日本 \U0001f3ab\x00"), []).startswith(b"%PDF")


@pytest.mark.acceptance("hole-10")
async def test_a_receipt_shows_a_refund_when_it_is_booked_and_not_when_it_is_requested(office: Office) -> None:
    await office.source()
    show = await office.show()
    sold = await office.checkout(show, "Stalls A1", "Stalls A2")
    office.stripe.pay(await office.open_page(show, sold))
    await office.deliver()

    async def text() -> str:
        async with office.engine.transaction(organization=show.organization) as tx:
            rows = await views.order(tx, sold["id"]), await views.items(tx, sold["id"])
        return PdfReader(io.BytesIO(documents.receipt(*rows))).pages[0].extract_text()

    async with office.engine.transaction(organization=show.organization) as tx:
        one = (await office.tickets(sold))[0]["id"]
        assert await after_sale.refund(tx, sold["id"], tickets=[one], reason="ill", actor="test") is not None
    assert "Refunded" not in await text()
    await office.drain()
    await office.deliver()
    assert "Refunded -256.25 EUR" in " ".join((await text()).split())
    await office.assert_sound()
