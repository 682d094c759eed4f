"""Amounts of money: how many decimals a currency has, how amounts are written, and which of them payment services take.

Our amounts are integers in the minor unit of ISO 4217.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from math import lcm
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from babel import Locale
    from babel.numbers import NumberPattern


__all__ = ["Amounts", "Money", "common_step", "currency_codes", "exponent", "format_amount", "format_number"]


def currency_codes(text: str) -> frozenset[str]:
    """Return the currency codes in a text."""
    return frozenset(text.split())


# ISO 4217: currencies whose minor unit is not a hundredth.
_EXPONENTS = {
    **dict.fromkeys(currency_codes("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"), 0),
    **dict.fromkeys(currency_codes("BHD IQD JOD KWD LYD OMR TND"), 3),
    **dict.fromkeys(currency_codes("CLF UYW"), 4),
}


def exponent(currency: str) -> int:
    """Return how many decimals our amounts of this currency have."""
    return _EXPONENTS.get(currency.upper(), 2)


_CODE = re.compile(r"[A-Z]{3}")


@dataclass(frozen=True, slots=True)
class Money:
    """An amount in the minor unit of its currency: `Money(10600, "ZAR")` is R106.00."""

    amount: int
    currency: str

    def __post_init__(self) -> None:
        if isinstance(self.amount, bool) or not isinstance(self.amount, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"amount {self.amount!r} is {type(self.amount).__name__}: give whole minor units (cents)")
        if not _CODE.fullmatch(self.currency):
            raise ValueError(f"currency {self.currency!r} is not a code of three capital letters, such as EUR")

    def __str__(self) -> str:
        return f"{format_number(self.amount, self.currency)} {self.currency}"


@dataclass(frozen=True, slots=True)
class Amounts:
    """The amounts that a payment service takes: its currencies, and how it writes an amount of each.

    `form` maps a currency code to the number of decimals, and the number of which an amount must be a multiple.
    """

    currencies: frozenset[str]
    form: Callable[[str], tuple[int, int]]

    def takes(self, currency: str) -> bool:
        """Return whether the service accepts payments in this currency."""
        return currency.upper() in self.currencies

    def step(self, currency: str) -> int:
        """Return the amount, in our minor units, of which every payment and refund must be a multiple."""
        code = currency.upper()
        decimals, multiple = self.form(code)
        return max(1, int(Decimal(multiple).scaleb(exponent(code) - decimals)))


def common_step(currency: str, services: Iterable[Amounts]) -> int:
    """Return the amount of which a price must be a multiple, so that it suits every service that takes the currency.

    A price is quoted before the buyer chooses a service.
    """
    return lcm(*(each.step(currency) for each in services if each.takes(currency)))


def format_amount(amount_minor: int, currency: str, locale: Locale | str = "en") -> str:
    """Write an amount with its currency for readers: 1250 EUR is €12.50. All decimals of the currency are shown."""
    digits = exponent(currency)
    parsed_locale, pattern = _pattern(str(locale), digits)
    amount = Decimal(amount_minor).scaleb(-digits)
    return pattern.apply(amount, parsed_locale, currency=currency.upper(), currency_digits=False)


def format_number(amount_minor: int, currency: str) -> str:
    """Write an amount without its currency, as tables do: 125000 EUR is 1,250.00."""
    digits = exponent(currency)
    return f"{Decimal(amount_minor).scaleb(-digits):,.{digits}f}"


@cache
def _pattern(name: str, digits: int) -> tuple[Locale, NumberPattern]:
    """Return a locale and its currency pattern with our number of decimals: CLDR omits decimals that are rarely
    used."""
    from babel import Locale

    parsed_locale = Locale.parse(name.replace("-", "_"))
    pattern = copy(parsed_locale.currency_formats["standard"])
    pattern.frac_prec = (digits, digits)
    return parsed_locale, pattern
