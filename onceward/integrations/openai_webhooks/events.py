"""What OpenAI's events name.

Hand-kept after `src/openai/types/webhooks` of the published OpenAI Python library, version 3.3.1, not compared with a
live account. Only fields that most handlers use; `event.payload` has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onceward.webhooks.models import Payload

VERSION: Final = "v1"
"""The version of OpenAI's API that the models describe."""


class Finished(Payload):
    """What has ended: fetch it by its id."""

    id: str


MODELS: Final[Mapping[str, type[Payload]]] = dict.fromkeys(
    (
        "batch.cancelled",
        "batch.completed",
        "batch.expired",
        "batch.failed",
        "eval.run.canceled",
        "eval.run.failed",
        "eval.run.succeeded",
        "fine_tuning.job.cancelled",
        "fine_tuning.job.failed",
        "fine_tuning.job.succeeded",
        "response.cancelled",
        "response.completed",
        "response.failed",
        "response.incomplete",
    ),
    Finished,
)
