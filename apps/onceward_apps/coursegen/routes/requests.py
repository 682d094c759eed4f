"""Shared by all routes: the caller, errors with their status and text, and fields of requests."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar
from uuid import UUID

import orjson
from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError

from onceward import Engine
from onceward.outbox import Invalid
from onceward.web import Identity, Problem, engine_of, require
from onceward_apps.coursegen import texts
from onceward_apps.coursegen.errors import AtLimit, BadRequest, CoursegenError

MAX_BODY_BYTES = 64 * 1024

M = TypeVar("M", bound=BaseModel)

EngineHere = Annotated[Engine, Depends(engine_of)]
Operator = Annotated[Identity, Depends(require("operator"))]


class Person:
    """An end user of one organization."""

    def __init__(self, identity: Identity, organization: UUID, user_id: UUID) -> None:
        self.identity = identity
        self.organization = organization
        self.user_id = user_id


def person(identity: Annotated[Identity, Depends(require("user"))]) -> Person:
    """Return the user whom the JWT identifies. Its subject must be a UUID, and it must name an organization."""
    try:
        user_id = UUID(identity.user_in(identity.organization) or "")
    except ValueError:
        raise Problem(403, "the token's subject (`sub`) must be a UUID: courses belong to users") from None
    if identity.organization is None:
        raise Problem(403, "the token has no `organization_id`: courses belong to an organization")
    return Person(identity, identity.organization, user_id)


User = Annotated[Person, Depends(person)]


async def read_body(request: Request, model: type[M]) -> M:
    """Return the JSON body as a model. Raises `BadRequest` (400) that names the field."""
    body = await request.body()
    if len(body) > MAX_BODY_BYTES:
        raise BadRequest(f"the body has {len(body)} bytes, at most {MAX_BODY_BYTES} are allowed")
    try:
        return model.model_validate(orjson.loads(body))
    except orjson.JSONDecodeError:
        raise BadRequest("the body is not JSON") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        raise BadRequest(f"{where}: {first['msg']}") from None


@contextmanager
def problems(request: Request) -> Generator[None]:
    """Turn errors of the app into responses, with a text in the language of the request."""
    try:
        yield
    except Invalid as error:
        raise problem(request, BadRequest(f"webhookUrl: {error}")) from error
    except CoursegenError as error:
        raise problem(request, error) from error


def problem(request: Request, error: CoursegenError) -> Problem:
    locale = texts.accepted(request.headers.get("accept-language"))
    members: dict[str, Any] = {"success": False}
    headers: dict[str, str] | None = None
    key = error.key
    values: dict[str, Any] = {"detail": str(error)}
    if isinstance(error, AtLimit):
        key = f"error.{error.which}" if error.which in ("monthly_cap", "forecast") else f"error.{error.which}_limit"
        headers = {"Retry-After": str(error.retry_after_s)}
        members |= {"limit": error.which, **error.facts}
        values |= {**error.facts, "retry_after_s": error.retry_after_s}
    members["error"] = texts.text(key, locale, **values)
    return Problem(error.status, str(error), kind=type(error).__name__, headers=headers, **members)
