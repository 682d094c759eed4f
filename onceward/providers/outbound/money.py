"""Minor units to the decimal strings that PayPal wants, and back."""

from decimal import Decimal, InvalidOperation

# ISO 4217 currencies whose minor unit is not a hundredth.
_EXPONENTS = {
    **dict.fromkeys(("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW"), 0),
    **dict.fromkeys(("PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
}
# Kept in hundredths by ISO, taken in whole units only by PayPal.
_WHOLE_AT_PAYPAL = frozenset({"HUF", "TWD"})


def to_decimal(amount_minor: int, currency: str) -> str:
    """1234 EUR is "12.34", 1234 JPY is "1234". Raises ValueError for an amount PayPal cannot hold."""
    code = currency.upper()
    amount = Decimal(amount_minor).scaleb(-_EXPONENTS.get(code, 2))
    if code in _WHOLE_AT_PAYPAL:
        if amount != amount.to_integral_value():
            raise ValueError(f"amount {amount} {code}: PayPal takes whole {code} only")
        return str(int(amount))
    return f"{amount:f}"


def to_minor(amount: str, currency: str) -> int:
    """ "12.34" EUR is 1234. Raises ValueError for more digits than the currency has."""
    code = currency.upper()
    try:
        minor = Decimal(amount).scaleb(_EXPONENTS.get(code, 2))
    except InvalidOperation:
        raise ValueError(f"amount {amount!r} is not a number") from None
    if not minor.is_finite() or minor != minor.to_integral_value():
        raise ValueError(f"amount {amount} has more digits than {code} does")
    return int(minor)
