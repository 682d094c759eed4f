"""One module reads phone numbers and one reads replies, for every app and channel."""

from __future__ import annotations

import pytest

from onceward.messages import BadNumber, read_number, read_reply, spellings, variants
from onceward.messages.phones import zone_of
from onceward.messages.replies import WORDS, _plain
from onceward.messages.templates import Templates


@pytest.mark.parametrize(
    ("text", "country", "number"),
    [
        ("+65 9123 4567", None, "+6591234567"),
        ("0065-9123-4567", None, "+6591234567"),
        ("whatsapp:+6591234567", None, "+6591234567"),
        ("91234567", "65", "+6591234567"),
        ("6591234567", "65", "+6591234567"),
        ("0151 1234567", "49", "+491511234567"),
        ("+49 (0)151 1234567", None, "+491511234567"),
        ("(11) 98765-4321", "55", "+5511987654321"),
    ],
)
def test_numbers_of_people_have_one_form(text: str, country: str | None, number: str) -> None:
    assert read_number(text, country_code=country) == number


@pytest.mark.parametrize(
    "text",
    [
        "+5511987654321",
        "5511987654321",
        "551187654321",
        "5511987654321@s.whatsapp.net",
        "5511987654321:12@s.whatsapp.net",
        "+55 (11) 98765-4321",
    ],
)
def test_a_brazilian_number_is_one_number_with_or_without_its_ninth_digit(text: str) -> None:
    assert read_number(text, international=True) == "+5511987654321"


@pytest.mark.parametrize(
    "text",
    ["", "+", "12", "+0123456789", "9" * 16, "+65 call me", "91234567", "٩٩٩٩٩٩٩٩", "12036304@g.us", "+55 11 abc"],
)
def test_a_text_that_is_not_a_number_is_refused(text: str) -> None:
    with pytest.raises(BadNumber):
        read_number(text)


def test_a_number_is_found_in_all_its_spellings() -> None:
    assert variants("+551187654321") == variants("+5511987654321") == ["+5511987654321", "+551187654321"]
    assert variants("+551133334444") == ["+551133334444", "+5511933334444"], "a landline, or a mobile number"
    assert variants("+5215512345678") == ["+525512345678", "+5215512345678"]
    assert spellings("+4930123456") == ["+4930123456", "4930123456", "whatsapp:+4930123456"]


def test_a_number_tells_the_time_zone_if_its_country_has_one() -> None:
    assert zone_of("+5511987654321") == "America/Sao_Paulo"
    assert zone_of("+6591234567") == "Asia/Singapore"
    assert zone_of("+12125550123") == "America/New_York"
    assert zone_of("+18005550123") is None, "a number of the whole country, which has several"
    assert zone_of("+12083250123") is None, "a place with two zones"
    assert zone_of("+12089350123") == "America/Los_Angeles"
    assert zone_of("+870773111632") is None, "a satellite phone"
    assert zone_of("ada@example.org") is None


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("YES!", "yes"),
        ("Yes, thank you!", "yes"),
        ("No thanks", "no"),
        ("please cancel", "cancel"),
        ("Bitte absagen", "cancel"),
        ("thanks", None),
        ("1", None),
        (" Confirmo. ", "confirm"),
        ("não", "no"),
        ("Stop", "stop"),
        ("Pârár", "stop"),
        ("START", "start"),
        (" Ajuda ", "help"),
        ("mais  tarde", "later"),
        ("Später!", "later"),
        ("Abmelden", "stop"),
        ("Стоп", "stop"),
        ("ДА.", "yes"),
        ("stop it please", None),
        ("helpless", None),
        ("", None),
        ("👍🏽", "yes"),
        ("ok\x00", None),
        ("x" * 10_000, None),
    ],
)
def test_replies_are_exact_words_in_any_language(text: str, reply: str | None) -> None:
    assert read_reply(text) == reply


def test_an_app_reads_only_the_answers_that_it_asks_for() -> None:
    assert read_reply("ok", allowed=("stop", "later")) is None
    assert read_reply("ok", "STOP", allowed=("stop", "later")) == "stop"


def test_no_word_has_two_meanings_and_every_language_can_stop_start_and_ask_for_help() -> None:
    words = [word for language in WORDS.values() for each in language.values() for word in each]
    assert len(words) == len(set(words))
    assert len({_plain(word) for word in words}) == len(words)
    assert {locale for each in Templates() for locale in each.locales} <= set(WORDS), "those of the built-in templates"
    assert all({"stop", "start", "help"} <= set(language) for language in WORDS.values())
