"""How many round trips a sale takes, from the webhook to its commit."""

from __future__ import annotations

from tests.statements import counted
from tests.ticketing.office import Office


async def test_a_sale_takes_few_statements(office: Office) -> None:
    await office.source()
    show = await office.show()
    first, second = await office.checkout(show, "Stalls A1"), await office.checkout(show, "Stalls A2")
    await office.pay(first)
    charge = await office.charge(second)
    with counted() as sent:
        sold = await office.webhook(charge)
    assert sold.status == 200
    # Two store the event, four are those of payments, one commits and one wakes workers. The rest is the app.
    assert len(sent) <= 16, "\n".join(each[:120] for each in sent)
