"""The report about messages: counts by channel, reasons, cost, and a CSV without formulas."""

from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime

import pytest

from onceward.messages.settings import MessagesSettings
from onceward.messages.statistics import Period, csv_lines, failures, load_report, totals
from onceward.testing import drain

TODAY = date(2026, 11, 18)


@pytest.mark.parametrize(
    ("first", "last", "problem"),
    [
        ("2026-11-31", "", "write dates as"),
        ("2026-11-19", "2026-11-18", "after its end"),
        ("2026-01-01", "2026-11-18", "at most 92 days"),
    ],
)
def test_a_wrong_period_is_a_clear_error(first: str, last: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Period.parse(first, last, today=TODAY)
    assert Period.parse("", "", today=TODAY) == Period(date(2026, 11, 12), TODAY)


def test_a_wrong_price_is_an_error_at_the_start() -> None:
    assert MessagesSettings.model_validate({"message_prices": "sms=0.07, whatsapp=0.04"}).message_prices == {
        "sms": "0.07",
        "whatsapp": "0.04",
    }
    with pytest.raises(ValueError, match="price of 'sms' is 'x'"):
        MessagesSettings.model_validate({"message_prices": "sms=x"})


async def test_a_report_counts_states_reasons_and_cost_and_no_cell_is_a_formula(office, wires) -> None:
    here = await office(wires.whatsapp, wires.smtp)
    for number in range(3):
        await here.send("news", to="+4915112345678", channel="whatsapp", key=f"w{number}")
    wires.sims.smtp.refuse("gone@example.net", reply="550 5.7.1 no")
    await here.send("news", to="gone@example.net", key="m1")
    await drain(here.engine)
    await here.db.execute("update onceward.messages set delivery = 'read' where key = 'w0'")
    await here.db.execute(
        "update onceward.messages set reason = '=1+1 ' || reason, template = '@news' where key = 'm1'"
    )
    today = Period(datetime.now(UTC).date(), datetime.now(UTC).date())
    async with here.db.acquire() as conn:
        lines = await load_report(conn, today, organization=None, prices={"whatsapp": "0.04"})
    by_channel = {each.channel: each for each in totals(lines)}
    assert dict(by_channel["whatsapp"].counts) == {
        "queued": 3,
        "sent": 3,
        "delivered": 1,
        "read": 1,
        "failed": 0,
        "cancelled": 0,
        "unknown": 0,
    }
    assert (str(by_channel["whatsapp"].cost), by_channel["email"].counts["failed"]) == ("0.12", 1)
    [reason] = failures(lines)
    assert reason.reason.startswith("=1+1 relay refused")
    rows = list(csv.DictReader(io.StringIO("".join(csv_lines(lines)))))
    [failed] = [row for row in rows if row["channel"] == "email"]
    assert (failed["template"], failed["reason"][:5], failed["failed"]) == ("'@news", "'=1+1", "1")
