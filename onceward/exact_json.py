"""Read and write JSON with numbers that do not fit a double. PostgreSQL's jsonb stores them without rounding.

`orjson` reads and writes everything that fits a double. Only JSON that `orjson` refuses takes the slower path here.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

import orjson

MOST_INT_DIGITS: Final = 4300
"""Python refuses to convert longer texts to `int` and back."""
MOST_DIGITS_BEFORE_POINT: Final = 131_072
MOST_DIGITS_AFTER_POINT: Final = 16_383
"""The limits of PostgreSQL's `numeric`, and therefore of `jsonb`."""


def loads(text: str | bytes) -> Any:
    """Read JSON. A number that does not fit a double becomes `int`, or `Decimal` if it has a fraction or too many
    digits.

    Raise ValueError or RecursionError if the text is not JSON.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return loads_leniently(text)


def loads_leniently(text: str | bytes) -> Any:
    """Read JSON that orjson refuses although it is valid: large numbers and lone surrogates."""
    return json.loads(text, parse_int=_integer, parse_float=_number, parse_constant=_refuse)


def loads_exactly(text: str | bytes) -> Any:
    """Read JSON with every fraction as `Decimal`, to look at all of its digits."""
    return json.loads(text, parse_int=_integer, parse_float=_exact, parse_constant=_refuse)


def dumps(value: Any, *, indent: bool = False, default: Callable[[Any], Any] | None = None) -> str:
    """Write JSON, `Decimal` as a number. `default` converts values of other types; without it they raise TypeError."""
    option = orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z | (orjson.OPT_INDENT_2 if indent else 0)
    large = False

    def refuse(each: Any) -> Any:
        nonlocal large
        large = large or isinstance(each, Decimal)
        if large or default is None:
            raise TypeError(f"{type(each).__name__} is not JSON")
        return default(each)

    try:
        return orjson.dumps(value, option=option, default=refuse).decode()
    except TypeError as error:
        if not large and "64-bit" not in str(error):
            raise
    # The standard library cannot encode Decimal. Each one is written as a string with a random mark, which is removed
    # below.
    mark = secrets.token_hex(16)

    def mark_number(each: Any) -> Any:
        if isinstance(each, Decimal):
            return f"{mark}{each:f}"
        return orjson.loads(orjson.dumps(each, option=option, default=default))

    separators = None if indent else (",", ":")
    written = json.dumps(
        value, default=mark_number, ensure_ascii=False, indent=2 if indent else None, separators=separators
    )
    return re.sub(f'"{mark}([^"]+)"', r"\1", written)


def is_holdable(value: Decimal) -> bool:
    """Return whether PostgreSQL's `numeric` can store all digits."""
    exponent = value.as_tuple().exponent
    return (
        isinstance(exponent, int)
        and exponent >= -MOST_DIGITS_AFTER_POINT
        and value.adjusted() < MOST_DIGITS_BEFORE_POINT
    )


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= MOST_INT_DIGITS else Decimal(text)


def _number(text: str) -> float | int | Decimal:
    value = float(text)
    if math.isfinite(value):
        return value
    try:
        exact = Decimal(text)
    except InvalidOperation:
        return value  # an exponent that not even Decimal can hold
    whole = exact.adjusted() < MOST_INT_DIGITS and exact == exact.to_integral_value()
    return int(exact) if whole else exact


def _exact(text: str) -> float | Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        return math.inf  # an exponent that not even Decimal can hold


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
