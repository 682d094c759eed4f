"""The OpenAPI document: what FastAPI derives from the routes, with errors, authentication and idempotency keys added.

Operations have names that stay the same when a function is renamed (`events.replay`), and models of two apps that share
a name get the name of their app: generators turn both into names of functions and classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from onceward.engine import Engine
from onceward.web.exposure import ANYBODY, NotDeclared, exposed_routes
from onceward.web.idempotency import LONGEST_KEY, REPLAYED
from onceward.web.openapi_tasks import add_tasks
from onceward.web.problems import MEDIA_TYPE
from onceward.work.offered import offered_tasks

MODELS = "#/components/schemas/"
HEADER_CREDENTIALS = ("any credential", "session", "sign-in of the student")
"""How the credentials begin that a request sends in the header Authorization."""
FILES = {
    ".csv": "text/csv",
    ".ics": "text/calendar",
    ".pdf": "application/pdf",
    ".png": "image/png",
}
"""What the operations send whose path ends like this."""
METHODS = ("get", "put", "post", "patch", "delete")
PROBLEM: dict[str, Any] = {
    "title": "Problem",
    "description": "An error (RFC 9457). Some errors have more members.",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "request_id": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "reason"],
                "properties": {"field": {"type": "string"}, "reason": {"type": "string"}},
            },
        },
    },
    "examples": [
        {
            "type": "about:blank",
            "title": "Invalid request",
            "status": 422,
            "detail": "body.limit: Input should be less than or equal to 1000",
            "request_id": "4c1f9e0a6f5b4b8f9a7d3b2c1d0e9f8a",
            "errors": [{"field": "body.limit", "reason": "Input should be less than or equal to 1000"}],
        }
    ],
}
ERRORS = {
    "400": "The request cannot be read.",
    "401": "A valid credential is required.",
    "403": "The caller may not do this.",
    "404": "It does not exist, or it belongs to another organization.",
    "409": "The state does not allow it, or the Idempotency-Key is in use or was used for a different request.",
    "413": "The body is larger than the server accepts.",
    "422": "A field is not valid; `errors` names it.",
    "429": "Too many requests; the header Retry-After says when to try again.",
    "503": "The database is unavailable.",
}
SECURITY = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key (`onceward keys add`), or the JWT of an end user.",
    }
}
KEY_PARAMETER: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A repeated request with the same key gets the first response (with the header "
    f"{REPLAYED}) and has no effect. Keys are valid for 24 hours.",
    "schema": {"type": "string", "maxLength": LONGEST_KEY, "examples": ["order-4711-refund"]},
}


def install(api: FastAPI) -> None:
    """Make `api.openapi()` return the complete document."""

    def document() -> dict[str, Any]:
        if api.openapi_schema is None:
            derived = get_openapi(title=api.title, version=api.version, summary=api.summary, routes=api.routes)
            add_tasks(derived, offered_tasks(cast(Engine, api.state.engine).registry))
            api.openapi_schema = complete(derived, credentials=_credentials(api))
        return api.openapi_schema

    api.openapi = document


def _credentials(api: FastAPI) -> dict[tuple[str, str], str]:
    """Return what each operation requires, by method and path. Routes that do not say it need a credential."""
    found: dict[tuple[str, str], str] = {}
    for route in api.routes:
        if getattr(route, "include_in_schema", False):
            with suppress(NotDeclared):
                found |= {(each.method.lower(), each.path): each.credential for each in exposed_routes([route])}
    return found


def complete(
    document: dict[str, Any], *, credentials: Mapping[tuple[str, str], str] = MappingProxyType({})
) -> dict[str, Any]:
    """Add what no route declares: the error responses, the credentials and the header Idempotency-Key."""
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = PROBLEM
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = SECURITY
    document["security"] = [{"bearer": []}]
    _name_operations(document)
    for method, path, operation in operations(document):
        credential = credentials.get((method, path), HEADER_CREDENTIALS[0])
        if not credential.startswith(HEADER_CREDENTIALS):
            operation["security"] = []
        _correct_files(path, operation["responses"])
        if path.startswith("/api/"):
            if method == "post":
                _add_key(operation)
            _add_errors(operation, possible_errors(method, operation, credential, schemas))
        else:
            operation["responses"].pop("422", None)
    return _with_readable_models(document)


def _correct_files(path: str, responses: dict[str, Any]) -> None:
    """Correct what FastAPI writes for a route that returns a whole response, such as a file: JSON of any form."""
    for response in responses.values():
        content: dict[str, Any] = response.get("content", {})
        if content.get("application/json", {}).get("schema") == {}:
            media_type = FILES.get(path[path.rfind(".") :])
            del response["content"]
            if media_type is not None:
                response["content"] = {media_type: {"schema": {"type": "string", "format": "binary"}}}


def _name_operations(document: dict[str, Any]) -> None:
    """Give operations the name of their path and of what they do: `events.list`, `events.get`, `events.replay`."""
    taken: dict[str, str] = {}
    # Those of one thing first: `events.replay` replays one event, `events.replay_many` those that match.
    for method, path, operation in sorted(operations(document), key=lambda each: -each[1].count("{")):
        name = _operation_name(method, path, operation["responses"])
        if name in taken:
            name = f"{name}_many"
        if name in taken:
            raise ValueError(f"{method} {path} and {taken[name]} would both be called {name} in the OpenAPI document")
        taken[name] = f"{method} {path}"
        operation["operationId"] = name


def _operation_name(method: str, path: str, responses: dict[str, Any]) -> str:
    parts = [each for each in re.sub(r"^/api(/v\d+)?/", "/", path).split("/") if each]
    words = [re.sub(r"\W", "_", each) for each in parts if not each.startswith("{")] or ["start"]
    match method:
        case "get":
            schema = responses.get("200", {}).get("content", {}).get("application/json", {}).get("schema", {})
            words.append("list" if schema.get("type") == "array" else "get")
        case "post":
            words += ["create"] if "201" in responses else []
        case _:
            words.append({"put": "put", "patch": "update", "delete": "delete"}[method])
    return ".".join(words)


def _with_readable_models(document: dict[str, Any]) -> dict[str, Any]:
    """Rename models that several modules have: FastAPI calls them `shop__routes__orders__NewOrder`."""
    schemas: dict[str, Any] = document["components"]["schemas"]
    names: dict[str, str] = {}
    for long in schemas:
        *module, name = long.split("__")
        if module:
            package = module[1] if len(module) > 1 else module[0]
            short = f"{package.title().replace('_', '')}{name}"
            names[long] = short if short not in schemas and short not in names.values() else long.replace("__", "_")
    document["components"]["schemas"] = {
        names.get(name, name): {**schema, "title": names.get(name, name)} for name, schema in schemas.items()
    }
    return _with_references(document, {f"{MODELS}{long}": f"{MODELS}{short}" for long, short in names.items()})


def _with_references(value: Any, changed: dict[str, str]) -> Any:
    if isinstance(value, dict):
        given = cast(dict[str, Any], value)
        return {
            name: changed.get(each, each) if name == "$ref" else _with_references(each, changed)
            for name, each in given.items()
        }
    if isinstance(value, list):
        return [_with_references(each, changed) for each in cast(list[Any], value)]
    return value


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield every operation with its method and path."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield method, path, item[method]


def possible_errors(method: str, operation: dict[str, Any], credential: str, schemas: dict[str, Any]) -> list[str]:
    """Return the error statuses that follow from what the operation takes. `responses=` of a route declares others."""
    parameters: list[dict[str, Any]] = operation.get("parameters", [])
    has_body = "requestBody" in operation
    possible = {
        "400": has_body or credential != ANYBODY,
        "401": credential != ANYBODY,
        "403": credential != ANYBODY,
        "404": any(each["in"] == "path" for each in parameters)
        or _names_something(operation.get("requestBody"), schemas, set()),
        "409": method != "get",
        "413": has_body,
        "422": has_body or bool(parameters),
        "429": True,
        "503": True,
    }
    return [status for status, is_possible in possible.items() if is_possible]


def _names_something(value: Any, schemas: dict[str, Any], seen: set[str]) -> bool:
    """Return whether a body has a field for an id, such as `ids` or `endpoint_id`: what it names may not exist."""
    if isinstance(value, list):
        return any(_names_something(each, schemas, seen) for each in cast(list[Any], value))
    if not isinstance(value, dict):
        return False
    given = cast(dict[str, Any], value)
    reference = str(given.get("$ref", "")).removeprefix(MODELS)
    if reference in schemas and reference not in seen:
        seen.add(reference)
        return _names_something(schemas[reference], schemas, seen)
    properties = given.get("properties", {})
    return any(re.search(r"(^|_)ids?$", name) for name in properties) or any(
        _names_something(each, schemas, seen) for name, each in given.items() if name not in ("example", "examples")
    )


def _add_errors(operation: dict[str, Any], statuses: Iterable[str]) -> None:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    responses: dict[str, Any] = operation["responses"]
    responses.pop("422", None)  # what FastAPI writes
    for status, response in responses.items():
        if status[0] in "45":  # a route that declares an error says only when it happens
            response["content"] = content
    for status in statuses:
        responses.setdefault(status, {"description": ERRORS[status], "content": content})


def _add_key(operation: dict[str, Any]) -> None:
    parameters = operation.setdefault("parameters", [])
    if not any(each["name"].lower() == "idempotency-key" for each in parameters):
        parameters.append(KEY_PARAMETER)
