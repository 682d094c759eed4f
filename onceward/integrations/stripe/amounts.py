"""The amounts of Stripe's API, after docs.stripe.com/currencies. Currencies that are not listed there are not
accepted."""

from __future__ import annotations

from decimal import Decimal

from onceward.money import Amounts, currency_codes, exponent

CURRENCIES = currency_codes(
    """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BWP BYN BZD CAD CDF CHF CLP CNY COP CRC
    CVE CZK DJF DKK DOP DZD EGP ETB EUR FJD FKP GBP GEL GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR ISK JMD JOD JPY
    KES KGS KHR KMF KRW KWD KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MUR MVR MWK MXN MYR MZN NAD NGN NIO
    NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RWF SAR SBD SCR SEK SGD SHP SLE SOS SRD SZL THB TJS TND TOP
    TRY TTD TWD TZS UAH UGX USD UYU UZS VND VUV WST XAF XCD XOF XPF YER ZAR ZMW
    """
)
# Stripe accepts these without decimals. MGA has a minor unit in ISO 4217 (a fifth), written with two decimals.
_WHOLE = currency_codes("BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF")
# Whole units only, but written with two decimals that are 00: 5 ISK is 500.
_WHOLE_IN_HUNDREDTHS = frozenset({"ISK", "UGX"})
# Three decimals, of which the last must be 0.
_THOUSANDTHS = frozenset({"BHD", "JOD", "KWD", "OMR", "TND"})
# HUF and TWD may be charged with decimals at Stripe; only payouts are in whole units.


def _form(code: str) -> tuple[int, int]:
    if code in _WHOLE:
        return 0, 1
    if code in _WHOLE_IN_HUNDREDTHS:
        return 2, 100
    if code in _THOUSANDTHS:
        return 3, 10
    return exponent(code), 1


AMOUNTS = Amounts(CURRENCIES, _form)
"""The currencies that Stripe takes, each with its decimals."""


def decimals(currency: str) -> int:
    """Return how many decimals an amount of Stripe's API has."""
    return _form(currency.upper())[0]


def multiple(currency: str) -> int:
    """Return the number of which an amount of Stripe's API must be a multiple."""
    return _form(currency.upper())[1]


def to_stripe(amount_minor: int, currency: str) -> int:
    """Convert an amount of ours to Stripe's API: 5 ISK are 500. Raises ValueError for an amount Stripe does not
    take."""
    code = currency.upper()
    decimals, multiple = _form(code)
    amount = Decimal(amount_minor).scaleb(decimals - exponent(code))
    if amount % multiple:
        raise ValueError(f"amount {amount_minor} {code}: Stripe takes multiples of {AMOUNTS.step(code)} only")
    return int(amount)


def from_stripe(amount: int, currency: str) -> int:
    """Convert an amount of Stripe's API to ours. Raises ValueError for a fraction that our amounts cannot hold."""
    code = currency.upper()
    minor = Decimal(amount).scaleb(exponent(code) - decimals(code))
    if minor != minor.to_integral_value():
        raise ValueError(f"amount {amount} of Stripe has more digits than {code} does")
    return int(minor)
