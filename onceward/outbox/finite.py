"""Find numbers that JSON cannot represent. The writers of JSON replace them by null without a word."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

from pydantic import BaseModel

PLAIN = frozenset({str, int, bool, type(None), UUID, datetime})
"""Types of which no value contains a number that JSON cannot represent: they are nearly all values of an event."""


def find_non_finite(value: Any, path: str = "data") -> tuple[str, Any] | None:
    """Return the path and the value of the first NaN or infinite number, or None."""
    if type(value) in PLAIN:
        return None
    if isinstance(value, float | Decimal):
        return None if math.isfinite(value) else (path, value)
    if isinstance(value, Mapping):
        inside = [(f"{path}.{key}", each) for key, each in cast("Mapping[Any, Any]", value).items()]
    elif isinstance(value, list | tuple | set | frozenset):
        inside = [(f"{path}.{number}", each) for number, each in enumerate(cast("list[Any]", value))]
    elif isinstance(value, BaseModel):
        inside = [(f"{path}.{name}", each) for name, each in value]
    elif is_dataclass(value):
        inside = [(f"{path}.{field.name}", getattr(value, field.name)) for field in fields(value)]
    else:
        return None
    return next((found for name, each in inside if (found := find_non_finite(each, name)) is not None), None)
