"""The amounts of PayPal's API, after developer.paypal.com/docs/api/reference/currency-codes.

Other currencies are not accepted.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from onceward.money import Amounts, currency_codes, exponent

CURRENCIES = currency_codes(
    "AUD BRL CAD CHF CNY CZK DKK EUR GBP HKD HUF ILS JPY MXN MYR NOK NZD PHP PLN SEK SGD THB TWD USD"
)
_WHOLE = frozenset({"HUF", "JPY", "TWD"})


def _decimals(code: str) -> int:
    return 0 if code in _WHOLE else exponent(code)


AMOUNTS = Amounts(CURRENCIES, lambda code: (_decimals(code), 1))
"""The currencies that PayPal takes, each with its decimals."""


def to_decimal(amount_minor: int, currency: str) -> str:
    """Write an amount as PayPal takes it: 1234 EUR is "12.34", 1234 JPY is "1234". Raises ValueError where it
    cannot."""
    code = currency.upper()
    amount = Decimal(amount_minor).scaleb(-exponent(code))
    decimals = _decimals(code)
    if amount != round(amount, decimals):
        raise ValueError(f"amount {amount} {code}: PayPal takes whole {code} only")
    return f"{amount:.{decimals}f}"


def to_minor(amount: str, currency: str) -> int:
    """Read an amount as PayPal writes it: "12.34" EUR is 1234. Raises ValueError for more digits than the currency
    has."""
    code = currency.upper()
    try:
        minor = Decimal(amount).scaleb(exponent(code))
    except InvalidOperation:
        raise ValueError(f"amount {amount!r} is not a number") from None
    if not minor.is_finite() or minor != minor.to_integral_value():
        raise ValueError(f"amount {amount} has more digits than {code} does")
    return int(minor)
