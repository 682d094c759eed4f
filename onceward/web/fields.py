"""Types of request fields that PostgreSQL can store, and parts of request bodies that several packages use.

Any other value gets 422 with the name of the field.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from onceward.db.text import NUL, find_unstorable, objection

HIGHEST = 2**63 - 1


def _storable(text: str) -> str:
    if (reason := objection(text)) is not None:
        raise ValueError(reason)
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
        raise ValueError("must be JSON with numbers of at most 64 bits, valid Unicode and limited nesting") from None
    if b"\\u0000" in written and find_unstorable(value) is not None:
        raise ValueError(NUL)
    return value


@dataclass(frozen=True, slots=True)
class AtMost:
    """Limits the entries of a list or object before validating any, so that a long one costs no time and one error.

    pydantic's `max_length` validates every entry of an object first.
    """

    entries: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        json_schema = handler(schema)
        for each in (json_schema, *json_schema.get("anyOf", ())):
            if each.get("type") == "array":
                each["maxItems"] = self.entries
            elif each.get("type") == "object":
                each["maxProperties"] = self.entries
        return json_schema

    def _check(self, value: Any) -> Any:
        if isinstance(value, Sized) and len(value) > self.entries:
            raise ValueError(f"must not have more than {self.entries} entries")
        return value


def _storable_json(value: Any) -> Any:
    """Return the value if PostgreSQL can store it and it is not too large."""
    _storable_object({"value": value})
    if len(orjson.dumps(value)) > MOST_JSON_BYTES:
        raise ValueError(f"must not have more than {MOST_JSON_BYTES} bytes as JSON: store it, and pass a reference")
    return value


MOST_JSON_BYTES = 64 << 10
Text = Annotated[str, AfterValidator(_storable)]
Moment = Annotated[datetime, AfterValidator(_aware)]
"""A time, in UTC if it has no time zone."""
Json = Annotated[dict[str, Any], AfterValidator(_storable_object)]
AnyJson = Annotated[Any, AfterValidator(_storable_json)]
"""Any JSON value of at most `MOST_JSON_BYTES`."""
Number = Annotated[int, Field(ge=0, le=HIGHEST)]
"""An id from our sequence, or a position in a list of ids."""


def example(**values: Any) -> ConfigDict:
    """Return the configuration of a model with an example for the OpenAPI document."""
    return ConfigDict(json_schema_extra={"examples": [values]})


class Why(BaseModel):
    """Why the operator does this; written to the audit log."""

    model_config = example(reason="the order was withdrawn")

    reason: str = Field("", max_length=1000)
