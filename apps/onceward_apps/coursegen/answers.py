"""Answers of a model: their JSON schema, and whether they fit it."""

from __future__ import annotations

from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from onceward.services import JsonSchema
from onceward_apps.coursegen import prompts

A = TypeVar("A", bound=prompts.Answer)


class NotFitting(Exception):
    """The answer is empty, is not JSON, does not fit its shape, or is too long for it."""

    def __init__(self, problem: str, answer: str) -> None:
        super().__init__(problem)
        self.answer = answer


def parse(shape: type[A], text: str) -> A:
    """Return the answer as an object. Raises `NotFitting`."""
    try:
        return shape.model_validate(orjson.loads(text))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise NotFitting(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}", text) from None
    except orjson.JSONDecodeError as error:
        raise NotFitting(f"not JSON: {error.msg}", text) from None


def schema_of(shape: type[prompts.Answer]) -> JsonSchema:
    return JsonSchema(shape.__name__.lower(), _strict(shape.model_json_schema()))


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without the keywords that strict mode refuses; pydantic checks those limits."""
    refused = {"title", "description", "minLength", "maxLength", "minItems", "maxItems"}
    properties = schema.get("properties")
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            kept[key] = {name: _strict(each) for name, each in value.items()}
        elif key == "items":
            kept[key] = _strict(value)
        elif key not in refused:
            kept[key] = value
    if properties is not None:
        kept["required"] = list(properties)
    return kept
