"""Phone numbers: read what people and services write, and know which spellings are one number.

A number is kept in one form (E.164, `+5511987654321`). Services report some numbers in another: WhatsApp omits the
ninth digit of Brazilian mobile numbers and adds a 1 to Mexican ones. `read_number` returns the same form for both.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from onceward.errors import OncewardError
from onceward.lazy import lazy_module

if TYPE_CHECKING:
    import phonenumbers
else:
    phonenumbers = lazy_module("phonenumbers")

_PREFIX = re.compile(r"^(whatsapp:|tel:|sms:)", re.IGNORECASE)
_ALLOWED = re.compile(r"\+?[0-9\s().\-/\u00a0\u2010-\u2015]+", re.ASCII)
_BRAZIL_OLD = re.compile(r"\+55(\d\d)([16-9]\d{7})")
"""A Brazilian mobile number without its ninth digit.

Numbers that begin with 2 to 5 may be landlines and stay as they are.
"""
_BRAZIL = re.compile(r"\+55(\d\d)(9?)(\d{8})")
_MEXICO_OLD = re.compile(r"\+521(\d{10})")
_MEXICO = re.compile(r"\+52(\d{10})")


class BadNumber(OncewardError, ValueError):
    """The text is not the phone number of a person."""


def read_number(text: str, *, country_code: str | None = None, international: bool = False) -> str:
    """Return a number as `+` and digits. Raise `BadNumber` if it cannot be read.

    Services write the country code without `+` (`international`). People may leave it out if `country_code` is given. A
    WhatsApp address (`5511987654321@s.whatsapp.net`) is a number; that of a group is not.
    """
    local, _, server = _PREFIX.sub("", text.strip()).partition("@")
    if server == "g.us":
        raise BadNumber("the address names a group: give the number of a person")
    written = local.partition(":")[0].strip()
    if not written.isascii() and any(char.isdigit() and not char.isascii() for char in written):
        raise BadNumber(_HINT)
    if not _ALLOWED.fullmatch(written):
        raise BadNumber(_HINT)
    if written.startswith("00"):
        written = "+" + written[2:]
    region = None
    if not written.startswith("+"):
        if international or server:
            written = "+" + written
        elif country_code is None:
            raise BadNumber("the number has no country code: write it as + and digits, or set the country code")
        else:
            region = _region(country_code)
    try:
        number = phonenumbers.parse(written, region)
    except phonenumbers.NumberParseException:
        raise BadNumber(_HINT) from None
    if not phonenumbers.is_possible_number(number):
        raise BadNumber(_HINT)
    return _one_form(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))


_HINT = "the number must have 7 to 15 digits with the country code, such as +6591234567"


def variants(number: str) -> list[str]:
    """Return the forms of a number that are one person's: with and without the digit that some services leave out."""
    one = _one_form(number)
    if same := _BRAZIL.fullmatch(one):
        return [one, f"+55{same[1]}{same[3]}" if same[2] else f"+55{same[1]}9{same[3]}"]
    if same := _MEXICO.fullmatch(one):
        return [one, f"+521{same[1]}"]
    return [one]


def spellings(number: str) -> list[str]:
    """Return every text under which webhooks and rows may contain the number, to find or erase a person."""
    return [text for each in variants(number) for text in (each, each[1:], f"whatsapp:{each}")]


@lru_cache(maxsize=4096)
def zone_of(number: str) -> str | None:
    """Return the time zone of a number, or None if it has several or is not a number."""
    if not number.startswith("+"):
        return None
    try:
        parsed = phonenumbers.parse(number)
    except phonenumbers.NumberParseException:
        return None
    kind = phonenumbers.number_type(parsed)
    if kind == phonenumbers.PhoneNumberType.UNKNOWN:
        return None
    # Other numbers, such as those of some mobile networks, belong to the whole country.
    country = parsed.country_code or 0
    is_local = phonenumbers.is_number_type_geographical(kind, country)
    digits = f"{country}{phonenumbers.national_significant_number(parsed) if is_local else ''}"
    zones = _zones()
    return next((zones[digits[:n]] for n in range(len(digits), 0, -1) if digits[:n] in zones), None)


@cache
def _zones() -> dict[str, str | None]:
    """Return the time zone of the numbers that begin with these digits, or None if they have several."""
    lines = (Path(__file__).parent / "zones_of_numbers.txt").read_text(encoding="utf-8").splitlines()
    return {prefix: None if zone == "-" else zone for zone, *prefixes in map(str.split, lines) for prefix in prefixes}


def _one_form(number: str) -> str:
    if old := _BRAZIL_OLD.fullmatch(number):
        return f"+55{old[1]}9{old[2]}"
    if old := _MEXICO_OLD.fullmatch(number):
        return f"+52{old[1]}"
    return number


def _region(country_code: str) -> str:
    code = country_code.strip().lstrip("+")
    region = phonenumbers.region_code_for_country_code(int(code)) if code.isdigit() else "ZZ"
    if region == "ZZ":
        raise BadNumber(f"{country_code!r} is not a country code: write its digits, such as 65")
    return region
