"""A sale that is cut at every statement and every commit, delivered again, comes out the same."""

from __future__ import annotations

from typing import Any

import pytest

from onceward_apps.ticketing.event_setup import Section
from tests.ticketing.crashing import deliver
from tests.ticketing.office import Office, Show


async def seen(office: Office, checkout: Any) -> dict[str, Any]:
    """All that a sale leaves behind, in numbers."""
    one = office.db.fetchval
    id, text = checkout["id"], str(checkout["id"])
    return {
        "status": await office.status(checkout),
        "tickets": len(await office.tickets(checkout)),
        "images": await one("select count(qr_code_url) from ticketing.tickets where checkout_id = $1", id),
        "payments": await one(
            "select count(*) from onceward.payments where decision = 'accepted' and subject_id = $1", str(id)
        ),
        "entries": await one(
            "select count(*) from onceward.ledger_entries e join onceward.ledger_journals j on j.id = e.journal_id"
            " where j.key = $1",
            f"checkout:{id}:sale",
        ),
        "messages": await one("select count(*) from onceward.messages where key like $1", f"checkout:{id}%"),
        "published": await one("select count(*) from onceward.published where key = $1", f"checkout:{id}:completed"),
        "audited": await one("select count(*) from onceward.audit_log where entity_id = $1", text),
        "counted": await one("select count(*) from ticketing.purchases_counted where checkout_id = $1", id),
    }


async def sell(office: Office, show: Show, row: int, at: int | None) -> tuple[list[str], dict[str, Any]]:
    checkout = await office.checkout(show, f"Hall R{row}-1", f"Hall R{row}-2")
    passed = await deliver(office, await office.charge(checkout), at)
    return passed, await seen(office, checkout)


@pytest.mark.timeout(240)
async def test_a_sale_killed_at_every_statement_and_commit_and_redelivered_comes_out_the_same(office: Office) -> None:
    await office.source()
    rows = {f"R{n}-": 2 for n in range(120)}
    show = await office.show(sections=(Section(name="Hall", price_cents=100, rows=rows),))
    points, expected = await sell(office, show, 0, None)
    assert expected["status"] == "completed"
    assert expected["images"] == expected["tickets"] == 2
    assert {"inline-inserted", "inline-before-commit", "inline-after-commit"} <= set(points)
    assert 20 < len(points) < 115, points
    for n in range(1, len(points) + 1):
        _, found = await sell(office, show, n, n)
        assert found == expected, f"a crash at {n} ({points[n - 1]}) changed the outcome"
