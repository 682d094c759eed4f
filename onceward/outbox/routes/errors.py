"""The HTTP responses to errors of the outbox."""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.responses import Response

from onceward.outbox import Invalid, KeyReused, NotResent, OutboxError
from onceward.web.problems import Problem, invalid_request, request_id_of, respond


def add_error_handlers(api: FastAPI) -> None:
    """Answer every `OutboxError` with its status and a problem document."""

    async def on_error(request: Request, error: Exception) -> Response:
        match error:
            case Invalid():
                problem = invalid_request([(error.field, error.reason)], detail=str(error))
            case KeyReused():
                problem = Problem(422, str(error), title="Key reused", kind="key-reused")
            case NotResent():
                problem = Problem(409, str(error))
            case _:
                problem = Problem(400, str(error))
        return respond(problem, request_id_of(request))

    api.add_exception_handler(OutboxError, on_error)
