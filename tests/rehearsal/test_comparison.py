"""What differs between two runs of the same code, and what does not."""

from __future__ import annotations

from datetime import UTC, datetime

from onceward.rehearsal.comparison import Side, differences
from onceward.rehearsal.effects import MessageEffect

AT = datetime(2020, 5, 1, 12, tzinfo=UTC)
OF = "https://school.example/s/exit?token=7d0f4d0e-6f6c-4b7e-9a0f-3f1f7f0a6c11."


def mail(text: str) -> Side:
    return Side([MessageEffect("welcome", "email", "a***@example.org", "k", "", text)], AT)


def test_a_link_that_was_signed_a_second_later_is_not_a_difference_and_one_to_somebody_else_is() -> None:
    signed = mail(f"Hello, {OF}1588334400.Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4")
    later = mail(f"Hello, {OF}1588334401.cXV4YmF6Zm9vYmFycXV4YmF6Zm9vYmFy")
    other = mail(f"Hello, {OF.replace('7d0f', '8d0f')}1588334401.cXV4YmF6Zm9vYmFycXV4YmF6Zm9vYmFy")
    assert differences(signed, later) == []
    assert [each.what for each in differences(signed, other)] == ["message welcome by email: text differs"]
