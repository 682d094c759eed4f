"""Convert amounts between our format and those of payment services, for the currencies that each service accepts.

Our amounts are integers in the minor unit of ISO 4217. The tables follow the services' own documentation,
docs.stripe.com/currencies and developer.paypal.com/docs/api/reference/currency-codes. Other currencies are not accepted.
"""

from __future__ import annotations

from copy import copy
from decimal import Decimal, InvalidOperation
from functools import cache
from math import lcm
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from babel import Locale
    from babel.numbers import NumberPattern

Service = Literal["stripe", "paypal"]
SERVICES: tuple[Service, ...] = ("stripe", "paypal")


def _codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


# ISO 4217: currencies whose minor unit is not a hundredth.
_EXPONENTS = {
    **dict.fromkeys(_codes("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"), 0),
    **dict.fromkeys(_codes("BHD IQD JOD KWD LYD OMR TND"), 3),
    **dict.fromkeys(_codes("CLF UYW"), 4),
}
STRIPE = _codes(
    """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BWP BYN BZD CAD CDF CHF CLP CNY COP CRC CVE
    CZK DJF DKK DOP DZD EGP ETB EUR FJD FKP GBP GEL GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR ISK JMD JOD JPY KES KGS
    KHR KMF KRW KWD KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD
    OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RWF SAR SBD SCR SEK SGD SHP SLE SOS SRD SZL THB TJS TND TOP TRY TTD TWD TZS
    UAH UGX USD UYU UZS VND VUV WST XAF XCD XOF XPF YER ZAR ZMW
    """
)
# Stripe accepts these without decimals. MGA has a minor unit in ISO 4217 (a fifth), written with two decimals.
_STRIPE_WHOLE = _codes("BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF")
# Whole units only, but written with two decimals that are 00: 5 ISK is 500.
_STRIPE_WHOLE_IN_HUNDREDTHS = frozenset({"ISK", "UGX"})
# Three decimals, of which the last must be 0.
_STRIPE_THOUSANDTHS = frozenset({"BHD", "JOD", "KWD", "OMR", "TND"})
# HUF and TWD may be charged with decimals at Stripe; only payouts are in whole units.

PAYPAL = _codes("AUD BRL CAD CHF CNY CZK DKK EUR GBP HKD HUF ILS JPY MXN MYR NOK NZD PHP PLN SEK SGD THB TWD USD")
_PAYPAL_WHOLE = frozenset({"HUF", "JPY", "TWD"})


def exponent(currency: str) -> int:
    """Return how many decimals our amounts of this currency have."""
    return _EXPONENTS.get(currency.upper(), 2)


def is_taken_by(service: Service, currency: str) -> bool:
    """Return whether the service accepts payments in this currency."""
    return currency.upper() in (STRIPE if service == "stripe" else PAYPAL)


def step(currency: str) -> int:
    """Return the amount, in our minor units, of which every payment and refund must be a multiple.

    It suits every service that takes the currency, because a price is quoted before the buyer chooses a service.
    """
    steps = [_step_at(service, currency.upper()) for service in SERVICES if is_taken_by(service, currency)]
    return lcm(*steps) if steps else 1


def _step_at(service: Service, code: str) -> int:
    decimals, multiple = _stripe_form(code) if service == "stripe" else (_paypal_decimals(code), 1)
    return max(1, int(Decimal(multiple).scaleb(exponent(code) - decimals)))


def _stripe_form(code: str) -> tuple[int, int]:
    """Return the decimals of Stripe's amounts, and the number of which they must be a multiple."""
    if code in _STRIPE_WHOLE:
        return 0, 1
    if code in _STRIPE_WHOLE_IN_HUNDREDTHS:
        return 2, 100
    if code in _STRIPE_THOUSANDTHS:
        return 3, 10
    return exponent(code), 1


def stripe_decimals(currency: str) -> int:
    """Return how many decimals an amount of Stripe's API has."""
    return _stripe_form(currency.upper())[0]


def stripe_multiple(currency: str) -> int:
    """Return the number of which an amount of Stripe's API must be a multiple."""
    return _stripe_form(currency.upper())[1]


def _paypal_decimals(code: str) -> int:
    return 0 if code in _PAYPAL_WHOLE else exponent(code)


def to_stripe(amount_minor: int, currency: str) -> int:
    """Convert an amount of ours to Stripe's API: 5 ISK are 500. Raises ValueError for an amount Stripe does not take."""
    code = currency.upper()
    decimals, multiple = _stripe_form(code)
    amount = Decimal(amount_minor).scaleb(decimals - exponent(code))
    if amount % multiple:
        raise ValueError(f"amount {amount_minor} {code}: Stripe takes multiples of {_step_at('stripe', code)} only")
    return int(amount)


def from_stripe(amount: int, currency: str) -> int:
    """Convert an amount of Stripe's API to ours. Raises ValueError for a fraction that our amounts cannot hold."""
    code = currency.upper()
    minor = Decimal(amount).scaleb(exponent(code) - _stripe_form(code)[0])
    if minor != minor.to_integral_value():
        raise ValueError(f"amount {amount} of Stripe has more digits than {code} does")
    return int(minor)


def to_decimal(amount_minor: int, currency: str) -> str:
    """Write an amount as PayPal takes it: 1234 EUR is "12.34", 1234 JPY is "1234". Raises ValueError where it cannot."""
    code = currency.upper()
    amount = Decimal(amount_minor).scaleb(-exponent(code))
    decimals = _paypal_decimals(code)
    if amount != round(amount, decimals):
        raise ValueError(f"amount {amount} {code}: PayPal takes whole {code} only")
    return f"{amount:.{decimals}f}"


def to_minor(amount: str, currency: str) -> int:
    """Read an amount as PayPal writes it: "12.34" EUR is 1234. Raises ValueError for more digits than the currency has."""
    code = currency.upper()
    try:
        minor = Decimal(amount).scaleb(exponent(code))
    except InvalidOperation:
        raise ValueError(f"amount {amount!r} is not a number") from None
    if not minor.is_finite() or minor != minor.to_integral_value():
        raise ValueError(f"amount {amount} has more digits than {code} does")
    return int(minor)


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
    """Return a locale and its currency pattern with our number of decimals: CLDR omits decimals that are rarely used."""
    from babel import Locale

    parsed_locale = Locale.parse(name.replace("-", "_"))
    pattern = copy(parsed_locale.currency_formats["standard"])
    pattern.frac_prec = (digits, digits)
    return parsed_locale, pattern
