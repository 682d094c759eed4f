"""Jobs and workflows in the OpenAPI document: the body of `POST /api/v1/jobs` has one form for each task."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from onceward.work.offered import Offered, OfferedKind

MODELS = "#/components/schemas/"
BODIES: dict[OfferedKind, tuple[str, str, str]] = {
    "job": ("/api/v1/jobs", "NewJob", "task"),
    "workflow": ("/api/v1/workflows", "NewWorkflow", "name"),
}
"""By kind: the path, the general model of the body, and its field with the name of the task."""


def add_tasks(document: dict[str, Any], offered: Sequence[Offered]) -> None:
    """Replace the bodies by one model for each task. Without tasks nothing changes."""
    schemas: dict[str, Any] = document["components"]["schemas"]
    for kind, (path, general, named_by) in BODIES.items():
        tasks = [each for each in offered if each.kind == kind]
        if not tasks or path not in document["paths"]:
            continue
        forms: dict[str, str] = {}
        for task in tasks:
            name = f"{general}{_words(task.name)}"
            while name in schemas:
                name += "_"
            arguments = f"{name}Arguments"
            schemas |= _hoisted(task.args, arguments)
            schemas[name] = _form(schemas[general], named_by, task, arguments)
            forms[task.name] = f"{MODELS}{name}"
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        body["schema"] = {
            "oneOf": [{"$ref": reference} for reference in forms.values()],
            "discriminator": {"propertyName": named_by, "mapping": forms},
        }


def _form(general: Mapping[str, Any], named_by: str, task: Offered, arguments: str) -> dict[str, Any]:
    properties = {**general["properties"], named_by: {"type": "string", "const": task.name}}
    properties["args"] = {"$ref": f"{MODELS}{arguments}"}
    required = [named_by, *(["args"] if task.args.get("required") else [])]
    described = {"description": task.description} if task.description else {}
    form = {name: value for name, value in general.items() if name not in ("examples", "description")}
    return {**form, **described, "properties": properties, "required": required}


def _hoisted(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a schema and its definitions as models of the document."""
    definitions = cast("Mapping[str, Any]", schema.get("$defs", {}))
    own = {key: value for key, value in schema.items() if key != "$defs"}
    found = {name: own, **{f"{name}{_words(each)}": value for each, value in definitions.items()}}
    return {each: _renamed(value, name) for each, value in found.items()}


def _renamed(value: Any, owner: str) -> Any:
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        return {
            key: f"{MODELS}{owner}{_words(str(each).rpartition('/')[2])}" if key == "$ref" else _renamed(each, owner)
            for key, each in given.items()
        }
    if isinstance(value, list):
        return [_renamed(each, owner) for each in cast("list[Any]", value)]
    return value


def _words(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", name) if word)
