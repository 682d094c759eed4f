"""When something is due, with the rules for clocks that jump."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.schedules.due_times import Cron, Every, between, jitter_s, next_after


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def due(expression: str, tz: str, after: str, count: int) -> list[str]:
    return [f"{each:%m-%d %H:%M}" for each in islice(Cron(expression, tz).after(at(after)), count)]


def test_a_time_the_clock_jumps_over_is_due_right_after_the_jump() -> None:
    # Berlin, 29 March 2026: 02:00 becomes 03:00 at 01:00 UTC.
    assert due("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00", 4) == [
        "03-28 01:30",
        "03-29 01:00",
        "03-30 00:30",
        "03-31 00:30",
    ]


def test_a_time_that_comes_twice_is_due_once() -> None:
    # Berlin, 25 October 2026: 03:00 becomes 02:00 at 01:00 UTC.
    assert due("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 2) == ["10-25 00:30", "10-26 01:30"]


def test_an_hourly_schedule_goes_through_both_hours_of_a_change() -> None:
    assert due("0 * * * *", "Europe/Berlin", "2026-10-24T23:30", 4) == [
        "10-25 00:00",
        "10-25 01:00",
        "10-25 02:00",
        "10-25 03:00",
    ]
    assert due("0 * * * *", "Europe/Berlin", "2026-03-29T00:30", 3) == ["03-29 01:00", "03-29 02:00", "03-29 03:00"]


def test_a_day_time_stays_at_its_local_hour_over_the_year() -> None:
    assert due("0 9 * * 1", "America/Sao_Paulo", "2026-01-01T00:00", 1) == ["01-05 12:00"]
    assert due("0 9 1 1,7 *", "Europe/Berlin", "2026-01-01T00:00", 2) == ["01-01 08:00", "07-01 07:00"]


def test_intervals_fall_on_the_same_times_wherever_one_starts() -> None:
    six_hours = Every(6 * 3600)
    assert next_after(six_hours, at("2026-05-01T07:13")) == at("2026-05-01T12:00")
    assert next_after(six_hours, at("2026-05-01T12:00")) == at("2026-05-01T18:00")


def test_what_can_never_be_due_has_no_next_time() -> None:
    assert list(between(Cron("0 0 1 1 *"), at("2026-01-02T00:00"), at("2026-12-31T00:00"))) == []


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Cron("61 * * * *"), "61 * * * *"),
        (lambda: Cron("* * * * *", "Mars/Olympus"), "Mars/Olympus"),
        (lambda: Every(0.2), "0.2"),
    ],
)
def test_what_cannot_be_understood_is_named(make, named: str) -> None:
    with pytest.raises(ValueError, match=named.replace("*", r"\*")):
        make()


@given(
    st.sampled_from(["*/7 * * * *", "30 2 * * *", "0 */3 * * *", "15 1 * * 0"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 12, 31)),
)
def test_walking_in_steps_meets_the_same_times_as_walking_through(expression: str, tz: str, start: datetime) -> None:
    cron = Cron(expression, tz)
    moment = start.replace(tzinfo=UTC)
    through = list(islice(cron.after(moment), 6))
    stepped: list[datetime] = []
    for _ in range(6):
        found = next_after(cron, moment)
        assert found is not None
        assert found > moment
        stepped.append(found)
        moment = found
    assert stepped == through


def test_jitter_is_the_same_on_every_node_and_within_its_bound() -> None:
    delays = [jitter_s("a", at("2026-01-01T00:00") + timedelta(minutes=n), 30) for n in range(200)]
    assert all(0 <= each < 30 for each in delays)
    assert len({round(each) for each in delays}) > 20
    assert delays[7] == jitter_s("a", at("2026-01-01T00:07"), 30)
