"""The handler of Formbricks' webhooks. Only finished responses count: a response causes many updates before."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field, field_validator

from onceward import Event, Tx
from onceward_apps.learning import surveys
from onceward_apps.learning.app import app
from onceward_apps.learning.metrics import SURVEYS, count_result


class Response(BaseModel):
    """A response. `data` has the answers by question id, and the hidden fields of the link."""

    id: str = Field(min_length=1, max_length=200)
    surveyId: str = Field(min_length=1, max_length=200)
    data: dict[str, Any] = Field(default_factory=dict[str, Any])

    @field_validator("data", mode="before")
    @classmethod
    def _hidden_fields_too(cls, value: Any) -> Any:
        """Older installations nest the hidden fields under `hidden`."""
        if not isinstance(value, dict):
            return {} if value is None else value
        hidden: Any = value.get("hidden")
        rest: dict[str, Any] = {str(name): answer for name, answer in value.items() if name != "hidden"}
        return {**rest, **hidden} if isinstance(hidden, dict) else rest


@app.on("formbricks", "responseFinished", ordering=True)
async def response_finished(event: Event[Response], tx: Tx) -> dict[str, Any]:
    response = event.data
    if tx.organization is None and not await _act(tx, response.data):
        return count_result(tx, SURVEYS, {"status": "SURVEY_NOT_RECOGNIZED"})
    result = await surveys.finished(tx, survey_id=response.surveyId, response_id=response.id, answers=response.data)
    return count_result(tx, SURVEYS, result)


@app.on("formbricks", "responseCreated")
async def response_created(event: Event[Any], tx: Tx) -> dict[str, Any]:
    return {"status": "IGNORED", "reason": "the response is not finished"}


@app.on("formbricks", "responseUpdated")
async def response_updated(event: Event[Any], tx: Tx) -> dict[str, Any]:
    return {"status": "IGNORED", "reason": "the response is not finished"}


async def _act(tx: Tx, answers: dict[str, Any]) -> bool:
    """A source without an organization: the enrolment in the signed token decides. Its signature is checked
    afterwards."""
    for value in answers.values():
        if not isinstance(value, str) or "." not in value or len(value) > 200:
            continue
        organization = await tx.fetchval("select learning.organization_of('enrollment', $1)", value.partition(".")[0])
        if organization is not None:
            await tx.act_for(organization)
            return True
    return False
