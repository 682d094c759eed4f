"""Which operations of the HTTP API an assistant may call, as tools that the API's own document describes.

There is no second way to the data: a tool is a request with the operator's key, so roles, organizations, limits and the
audit log are those of the API. A tool that is not in the lists below does not exist for an assistant, whatever its key
may do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

READING = (
    ("get", "/api/v1/me"),
    ("get", "/api/v1/events"),
    ("get", "/api/v1/events/{event}"),
    ("get", "/api/v1/sources"),
    ("get", "/api/v1/jobs"),
    ("get", "/api/v1/jobs/{id}"),
    ("get", "/api/v1/trace/{ref}"),
    ("get", "/api/v1/dead-letters"),
    ("get", "/api/v1/dead-letters/groups"),
    ("get", "/api/v1/dead-letters/{id}"),
    ("get", "/api/v1/queues"),
    ("get", "/api/v1/workers"),
    ("get", "/api/v1/schedules"),
    ("get", "/api/v1/schedules/{name}/runs"),
    ("get", "/api/v1/messages"),
    ("get", "/api/v1/messages/{id}"),
    ("get", "/api/v1/endpoints"),
    ("get", "/api/v1/deliveries"),
    ("get", "/api/v1/deliveries/{id}"),
    ("get", "/api/v1/workflows"),
    ("get", "/api/v1/workflows/{id}"),
    ("get", "/api/v1/limits"),
    ("get", "/api/v1/audit"),
    ("post", "/api/v1/rehearsals"),  # runs handlers in transactions that are always rolled back
)
REPLAYING = (
    ("post", "/api/v1/dead-letters/{id}/replay"),
    ("post", "/api/v1/events/{event}/replay"),
    ("post", "/api/v1/deliveries/{id}/resend"),
)
DEEPEST = 12
"""How deep the schema of an argument may be nested; what is deeper is described as any value."""


@dataclass(frozen=True, slots=True)
class ToolOperation:
    """An operation of the API as a tool."""

    name: str
    description: str
    method: str
    path: str
    replays: bool
    parameters: Mapping[str, str]
    """The name of each parameter, and where it stands: `path` or `query`. All other arguments are fields of the
    body."""
    schema: dict[str, Any]
    """The JSON schema of the arguments."""

    def request(self, arguments: Mapping[str, Any]) -> tuple[str, dict[str, str], dict[str, Any] | None]:
        """Return path, query and body of the request. Raises `ValueError` for an argument that the tool does not
        have."""
        unknown = sorted(arguments.keys() - self.schema["properties"].keys())
        missing = [name for name in self.schema["required"] if arguments.get(name) is None]
        if unknown or missing:
            problems = [f"has no argument {name}" for name in unknown] + [
                f"needs the argument {name}" for name in missing
            ]
            raise ValueError(
                f"the tool {self.name} {' and '.join(problems)}; it has: {', '.join(self.schema['properties'])}"
            )
        path, query, body = self.path, dict[str, str](), dict[str, Any]()
        for name, value in arguments.items():
            match self.parameters.get(name):
                case "path":
                    path = path.replace(f"{{{name}}}", _segment(self.name, name, value))
                case "query":
                    if value is not None:
                        query[name] = _text(self.name, name, value)
                case _:
                    body[name] = value
        return path, query, body if self.method != "get" else None


def tools_of(document: Mapping[str, Any], *, replays: bool) -> list[ToolOperation]:
    """Return the tools of an installation by its OpenAPI document. An operation that it does not have is left out."""
    chosen = [(each, False) for each in READING] + ([(each, True) for each in REPLAYING] if replays else [])
    paths: Mapping[str, Mapping[str, Any]] = document.get("paths", {})
    return [
        _tool(document, method, path, paths[path][method], replays=replaying)
        for (method, path), replaying in chosen
        if method in paths.get(path, {})
    ]


def _tool(
    document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any], *, replays: bool
) -> ToolOperation:
    properties: dict[str, Any] = {}
    required: list[str] = []
    places: dict[str, str] = {}
    for each in operation.get("parameters", ()):
        if each["in"] in ("path", "query"):
            places[each["name"]] = each["in"]
            described = {"description": each["description"]} if each.get("description") else {}
            properties[each["name"]] = {**_inlined(document, each.get("schema", {})), **described}
            if each.get("required"):
                required.append(each["name"])
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    body = _inlined(document, content.get("schema", {}))
    properties |= body.get("properties", {})
    required += body.get("required", [])
    return ToolOperation(
        name=str(operation["operationId"]).replace(".", "_"),
        description=str(operation.get("description") or operation.get("summary") or path),
        method=method,
        path=path,
        replays=replays,
        parameters=places,
        schema={"type": "object", "properties": properties, "required": required, "additionalProperties": False},
    )


def _inlined(document: Mapping[str, Any], schema: Any, depth: int = 0) -> dict[str, Any]:
    """Return a schema with the models that it names in place of their names."""
    if depth > DEEPEST:
        return {}
    given = cast("dict[str, Any]", schema)
    if (ref := given.get("$ref")) is not None:
        return _inlined(document, document["components"]["schemas"].get(str(ref).rpartition("/")[2], {}), depth + 1)
    return {key: _inlined_value(document, value, depth + 1) for key, value in given.items()}


def _inlined_value(document: Mapping[str, Any], value: Any, depth: int) -> Any:
    if isinstance(value, dict):
        return _inlined(document, value, depth)
    if isinstance(value, list):
        return [_inlined_value(document, each, depth) for each in cast("list[Any]", value)]
    return value


def _text(tool: str, name: str, value: Any) -> str:
    if not isinstance(value, str | int | float | bool):
        raise ValueError(f"the tool {tool}: the argument {name} is a text or a number, not {type(value).__name__}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _segment(tool: str, name: str, value: Any) -> str:
    """Return a value as one part of a path. A client would take dots or nothing for a way to another operation."""
    text = _text(tool, name, value)
    if text in ("", ".", ".."):
        raise ValueError(f"the tool {tool}: the argument {name} names one object, and {text!r} names none")
    return quote(text, safe="")
