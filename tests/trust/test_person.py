"""Which values are about a person, and which are about somebody else."""

from __future__ import annotations

from typing import Any

import pytest

from onceward.trust.person import BadReference, Person

ANN = Person("ann@example.org")


@pytest.mark.parametrize(
    "text",
    [
        "ann@example.org",
        " Ann@Example.ORG ",
        "no mailbox ann@example.org.",
        "mailto:ann@example.org?subject=x",
        "'ann@example.org' is unknown",
        "<ann@example.org>, bob@example.org",
        "to=ann%40example.org&from=bob%40example.org",
        "user:ann@example.org",
    ],
)
def test_a_whole_word_is_found(text: str) -> None:
    assert ANN.is_mentioned(text)


@pytest.mark.parametrize(
    "text",
    [
        "joann@example.org",
        "jo.ann@example.org",
        "jo+ann@example.org",
        "jo-ann@example.org",
        "o'ann@example.org",
        "ann@example.org.uk",
        "ann@example.org-mail.net",
        "ann@example.organic",
        "joann%40example.org",
        "ann",
        "",
    ],
)
def test_a_part_of_another_address_is_not_a_mention(text: str) -> None:
    assert not ANN.is_mentioned(text)


@pytest.mark.parametrize("ref", ["10001", "7", "ann", "Elizabeth"])
@pytest.mark.parametrize(
    "value",
    [{"amount": 10001}, {"amount": "10001"}, {"note": "ann paid 10001"}, {"id": 7}, {"name": "Elizabeth"}, [10001, 7]],
)
def test_a_reference_that_looks_like_other_things_is_not_searched_in_texts(ref: str, value: Any) -> None:
    assert not Person(ref).is_in_json(value)


@pytest.mark.parametrize("value", [{"user_id": 10001}, {"a": [{"userId": "10001"}]}, {"customer": "10001"}])
def test_a_reference_is_found_in_a_member_that_names_a_person(value: Any) -> None:
    assert Person("10001").is_in_json(value)


@pytest.mark.parametrize("text", ["+15551234567", "15551234567", "whatsapp:+15551234567"])
def test_a_phone_number_is_found_in_the_spellings_of_the_services(text: str) -> None:
    assert Person("+15551234567").is_mentioned(text)


@pytest.mark.parametrize("text", ["+155512345678", "115551234567", "paid 15551234567 in all", "1555123456"])
def test_other_numbers_are_not_the_phone_number(text: str) -> None:
    assert not Person("+15551234567").is_mentioned(text)


def test_bodies_are_read_as_json_or_as_text() -> None:
    assert ANN.is_in_body(b'{"to": ["ANN\\u0040example.org"]}')
    assert ANN.is_in_body(b"To=ann%40example.org")
    assert not ANN.is_in_body(b'{"to": "joann@example.org"}')
    assert not ANN.is_in_body(b"\xff\xfe")


def test_every_reference_counts() -> None:
    person = Person(["ann@example.org", "10001"])
    assert person.is_in_json({"user_id": "10001"})
    assert person.is_in_json({"x": "ann@example.org"})
    assert not person.is_in_json({"x": "10001"})


@pytest.mark.parametrize("ref", ["", "   ", "a\0b", "x" * 321])
def test_what_cannot_be_a_reference_is_refused(ref: str) -> None:
    with pytest.raises(BadReference, match="person"):
        Person(ref)
