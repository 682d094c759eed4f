"""Hygraph: `gcms-signature`, base64 HMAC-SHA256 of a JSON text that contains the body as a string."""

from __future__ import annotations

import hmac

import orjson

from onceward.webhooks.events import Derive, Events, Join
from onceward.webhooks.families import Hmac
from onceward.webhooks.families.template import Inputs
from onceward.webhooks.provider import Rejected, Request, SourceConfig
from onceward.webhooks.sender import Sender

HEADER = "gcms-signature"
ENVIRONMENT = "env="


class HygraphSignature(Hmac):
    """The HMAC of `{"Body": the body as a string, "EnvironmentName": env, "TimeStamp": t}`, without spaces."""

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        self.decide(config, request, now)  # the short way does not know this text

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        stamp, _, signature = super().sign(config, body, now, **extra)[HEADER].partition(", ")
        return {HEADER: f"{signature}, {ENVIRONMENT}master, {stamp}"}

    def _digest(self, key: bytes, inputs: Inputs, algorithm: str) -> bytes:
        entries = [each.strip() for each in (inputs.request.headers.get(HEADER) or f"{ENVIRONMENT}master").split(",")]
        environments = [each.removeprefix(ENVIRONMENT) for each in entries if each.startswith(ENVIRONMENT)]
        if len(environments) != 1:
            raise Rejected("bad_header", f"header {HEADER} must contain {ENVIRONMENT} once")
        try:
            body = inputs.request.body.decode()
        except UnicodeDecodeError:
            raise Rejected("bad_body", "the body is not UTF-8") from None
        signed = {"Body": body, "EnvironmentName": environments[0], "TimeStamp": int(inputs.timestamp)}
        return hmac.digest(key, orjson.dumps(signed), algorithm)


SENDER = Sender(
    title="Hygraph",
    verification=HygraphSignature(
        header=HEADER,
        signed='{"Body":"{body}","EnvironmentName":"env","TimeStamp":{timestamp}}',
        encoding="base64",
        separator=", ",
        prefix="sign=",
        timestamp_entry="t=",
        timestamp_unit="ms",
    ),
    events=Events(
        id=Derive("operation", "data.__typename", "data.id", "data.stage", "data.updatedAt", "data.publishedAt"),
        type=Join("data.__typename", "operation"),
        ordering="data.id",
        data="data",
        strict_type=True,
    ),
    setup=(
        "In the project settings, under Automation, Webhooks, add a webhook with the method POST, the URL of the "
        "source and a secret key, which is the secret of the source. Include the payload: without it, two changes of "
        "one entry look the same."
    ),
    failure="Hygraph waits 3 s and makes five attempts in all.",
    facts=(
        "hygraph/hygraph-utils index.js (signature)",
        "hygraph.com/docs/api-reference/basics/webhooks (operation, data, deadline, attempts)",
    ),
    unconfirmed=("whether the time is new in each attempt", "the fields `updatedAt` and `publishedAt`"),
)
