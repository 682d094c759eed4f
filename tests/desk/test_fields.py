"""Inputs of forms: amounts as people write them, times that do not exist, and what the audit log says."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel

from onceward.desk.cells import cell
from onceward.desk.columns import Column
from onceward.desk.fields import entries, fill
from onceward.desk.form_changes import described, differences
from onceward.desk.form_input import parse
from onceward.money import Money


class Form(BaseModel):
    price: Money | None = None
    at: datetime | None = None


@pytest.mark.parametrize(
    ("text", "currency", "amount"),
    [
        ("12.50", "EUR", 1250),
        ("12,50", "EUR", 1250),
        ("1.234,50", "EUR", 123450),
        ("1,234.50", "EUR", 123450),
        ("1 234,5", "EUR", 123450),
        ("1,234", "JPY", 1234),
        ("12", "KWD", 12000),
    ],
)
def test_an_amount_is_read_as_people_write_it(text: str, currency: str, amount: int) -> None:
    assert parse(Form, {"price": text, "price.currency": currency}).model == Form(price=Money(amount, currency))


@pytest.mark.parametrize(
    ("text", "currency", "message"),
    [
        ("1,234", "EUR", "can be read in two ways"),
        ("1,234", "KWD", "can be read in two ways"),
        ("12.505", "EUR", "has 2 decimal places"),
        ("twelve", "EUR", "is not an amount"),
        ("Infinity", "EUR", "is not an amount"),
        ("12", "EURO", "is not a code"),
    ],
)
def test_an_amount_that_could_be_another_one_is_refused(text: str, currency: str, message: str) -> None:
    parsed = parse(Form, {"price": text, "price.currency": currency})
    assert parsed.model is None
    assert message in parsed.form[0].error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026-03-29T02:30", "the clocks go forward"),
        ("2026-03-29T01:30+05:00", "has a time zone of its own"),
        ("soon", "is not a time"),
    ],
)
def test_a_time_that_does_not_exist_is_refused(text: str, message: str) -> None:
    parsed = parse(Form, {"at": text, "at.zone": "Europe/Berlin"})
    assert parsed.model is None
    assert message in parsed.form[1].error
    fine = parse(Form, {"at": "2026-03-29T03:30", "at.zone": "Europe/Berlin"}).model
    assert fine == Form(at=datetime(2026, 3, 29, 1, 30, tzinfo=UTC))


def test_the_audit_log_is_read_in_words() -> None:
    changes = {"price": {"before": None, "after": {"amount": 1250, "currency": "EUR"}}, "at": None}
    assert described(Form, changes) == ("Price: nothing → €12.50",)


def test_a_time_that_nobody_changed_keeps_its_seconds() -> None:
    zone = ZoneInfo("Europe/Berlin")
    stored = datetime(2026, 1, 5, 8, 0, 30, 500, tzinfo=UTC)
    [entry] = [fill(each, stored, zone.key) for each in entries(Form) if each.name == "at"]
    opened = {"was.at": entry.value} | {f"was.at.{name}": text for name, text in entry.values.items()}
    left = parse(Form, {"at": entry.value, "at.zone": zone.key, **opened}).model
    assert left == Form(at=stored)
    for given in ({"at": "2026-01-05T09:01", "at.zone": zone.key}, {"at": entry.value, "at.zone": "UTC"}):
        changed = parse(Form, given | opened).model
        assert isinstance(changed, Form)
        assert changed.at is not None
        assert (changed.at.second, changed.at == stored) == (0, False)
    before = parse(Form, {key.removeprefix("was."): text for key, text in opened.items()}).model
    assert before is not None
    assert not differences(entries(Form), before, Form(at=stored)), "nobody else has changed it either"


def test_two_times_are_compared_in_the_zone_of_the_form() -> None:
    opened = Form(at=datetime(2026, 1, 5, 9, 0, tzinfo=ZoneInfo("Europe/Berlin")))
    assert not differences(entries(Form), opened, Form(at=datetime(2026, 1, 5, 8, 0, tzinfo=UTC)))
    moved = differences(entries(Form), opened, Form(at=datetime(2026, 1, 5, 9, 0, tzinfo=UTC)))
    assert moved == [("At", "2026-01-05T09:00 Europe/Berlin", "2026-01-05T10:00 Europe/Berlin")]


def test_a_long_text_is_cut_in_a_list_and_whole_on_the_page_of_its_row() -> None:
    column, row = Column("work", "Work"), {"work": "<b>first</b>\n" + "x" * 500}
    assert cell(column, row).endswith("x…")  # type: ignore[arg-type]
    whole = cell(column, row, whole=True)  # type: ignore[arg-type]
    assert whole == f'<span class="long-text">&lt;b&gt;first&lt;/b&gt;\n{"x" * 500}</span>'
    assert cell(column, {"work": "short"}, whole=True) == "short"  # type: ignore[arg-type]
