"""JSON whose numbers are larger than a double: PostgreSQL's jsonb holds them, so they are neither refused nor rounded.

`orjson` reads and writes everything that fits a double; only what it refuses takes the slower way here.
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
"""What PostgreSQL's `numeric` holds, and so `jsonb`."""


def loads(text: str | bytes) -> Any:
    """Read JSON. Numbers beyond a double are `int`, or `Decimal` if they have a fraction or very many digits.

    Raises ValueError or RecursionError for what is not JSON.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return loads_leniently(text)


def loads_leniently(text: str | bytes) -> Any:
    """Read what orjson refuses though it is JSON: large numbers and lone surrogates."""
    return json.loads(text, parse_int=_integer, parse_float=_number, parse_constant=_refuse)


def dumps(value: Any, *, indent: bool = False, default: Callable[[Any], Any] | None = None) -> str:
    """Write JSON, `Decimal` as a number. `default` is asked for what JSON does not know; without it that is a TypeError."""
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
    # The encoder of the standard library knows no Decimal: each is written as a text that nobody can foresee.
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
    """Whether PostgreSQL's `numeric` has room for all digits."""
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


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
