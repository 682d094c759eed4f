"""Contentful: `x-contentful-signature`, HMAC-SHA256 of method, path, the headers that it lists, and the body."""

from __future__ import annotations

import hmac
from typing import Final
from urllib.parse import quote, urlsplit

from onceward.webhooks.events import Derive, Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.families.template import Inputs, configured_url
from onceward.webhooks.provider import Rejected, Request, SourceConfig
from onceward.webhooks.sender import Sender

LISTED: Final = "x-contentful-signed-headers"
TIMESTAMP: Final = "x-contentful-timestamp"
MOST_HEADERS: Final = 50
KEPT_BY_ENCODE_URI: Final = ";,/?:@&=+$-_.!~*'()#"
KEPT_BY_ESCAPE: Final = "-_.!~*'()"


class ContentfulSignature(Hmac):
    """The HMAC of lines: the method, the path, `name:value` of each listed header, and the body."""

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        self.decide(config, request, now)

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        return super().sign(config, body, now, **{**extra, LISTED: f"{LISTED},{TIMESTAMP}"})

    def _digest(self, key: bytes, inputs: Inputs, algorithm: str) -> bytes:
        request = inputs.request
        names = sorted(name.strip().lower() for name in request.header(LISTED).split(","))
        if len(names) > MOST_HEADERS or not {LISTED, TIMESTAMP} <= set(names):
            raise Rejected(
                "bad_header", f"header {LISTED} must list itself and {TIMESTAMP}, and at most {MOST_HEADERS}"
            )
        headers = ";".join(f"{name}:{request.headers.get(name, '').strip()}" for name in names)
        lines = (request.method, _path(inputs), headers)
        return hmac.digest(key, "\n".join(lines).encode("utf-8", "surrogatepass") + b"\n" + request.body, algorithm)


def _path(inputs: Inputs) -> str:
    """Return path and query as its library writes them: the query is encoded twice."""
    parts = urlsplit(configured_url(inputs.config, inputs.request))
    query = quote(parts.query, safe=KEPT_BY_ESCAPE)
    return quote(f"{parts.path}?{query}" if query else parts.path, safe=KEPT_BY_ENCODE_URI)


SENDER = Sender(
    title="Contentful",
    verification=ContentfulSignature(
        header="x-contentful-signature",
        signed=(
            "{method}\n{path}\nx-contentful-signed-headers:{header:x-contentful-signed-headers};"
            "x-contentful-timestamp:{timestamp}\n{body}"
        ),
        timestamp=TIMESTAMP,
        timestamp_unit="ms",
    ),
    tolerance_s=30,
    events=Events(
        id=(
            Header("X-Contentful-Idempotency-Key"),
            Derive("sys.id", "sys.type", "sys.version", "sys.revision", "sys.updatedAt"),
        ),
        type=Header("X-Contentful-Topic"),
        ordering="sys.id",
        id_per_type=True,
        strict_type=True,
    ),
    setup=(
        "In the space, under Settings, Webhooks, add a webhook with the URL of the source. In the tab of its "
        "settings, enable request verification: the signing secret (64 characters) is the secret of the source. If a "
        "proxy changes the path, give `--public-url`."
    ),
    notes="The headers that the signature covers are listed in the request itself; the list is signed too.",
    facts=(
        "contentful/node-apps-toolkit src/requests (signature, tolerance)",
        "contentful.com/developers/docs/extensibility/webhooks/headers (topic)",
        "contentful.com/developers/changelog/idempotency-key-headers-for-webhook-requests (id)",
        "contentful.com/developers/docs/extensibility/webhooks/secrets (secret)",
    ),
    unconfirmed=("retries", "whether the topic is among the signed headers"),
)
