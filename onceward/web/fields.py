"""Values of requests that PostgreSQL can hold: what it would refuse is answered 422 with the name of the field."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, Field

HIGHEST = 2**63 - 1


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain a NUL character")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("must be Unicode text, without half characters (surrogates)") from None
    return text


def _aware(moment: datetime) -> datetime:
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be a time between the years 1 and 9999 in UTC") from None


def _storable_object(value: dict[str, Any]) -> dict[str, Any]:
    try:
        written = orjson.dumps(value)
    except (TypeError, ValueError):
        raise ValueError("must be plain JSON: numbers within 64 bits, Unicode text, not too deep") from None
    if b"\\u0000" in written:
        raise ValueError("must not contain a NUL character")
    return value


Text = Annotated[str, AfterValidator(_storable)]
Moment = Annotated[datetime, AfterValidator(_aware)]
"""Without a time zone it is UTC."""
Json = Annotated[dict[str, Any], AfterValidator(_storable_object)]
Number = Annotated[int, Field(ge=0, le=HIGHEST)]
"""An id from our sequence, or a place in a list of them."""
