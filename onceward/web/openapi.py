"""The OpenAPI document: what FastAPI derives from the routes, with errors, authentication and idempotency keys added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from onceward.web.idempotency import LONGEST_KEY, REPLAYED
from onceward.web.problems import MEDIA_TYPE

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
            api.openapi_schema = complete(
                get_openapi(title=api.title, version=api.version, summary=api.summary, routes=api.routes)
            )
        return api.openapi_schema

    api.openapi = document


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Add what no route declares: the error responses, the credentials and the header Idempotency-Key."""
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = PROBLEM
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = SECURITY
    document["security"] = [{"bearer": []}]
    for method, path, operation in operations(document):
        if path.startswith("/api/"):
            _add_errors(operation)
            if method == "post":
                _add_key(operation)
        else:
            operation["responses"].pop("422", None)
    return document


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield every operation with its method and path."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield method, path, item[method]


def _add_errors(operation: dict[str, Any]) -> None:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status, description in ERRORS.items():
        operation["responses"][status] = {"description": description, "content": content}


def _add_key(operation: dict[str, Any]) -> None:
    parameters = operation.setdefault("parameters", [])
    if not any(each["name"].lower() == "idempotency-key" for each in parameters):
        parameters.append(KEY_PARAMETER)
