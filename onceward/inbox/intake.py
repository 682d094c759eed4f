"""Verify a webhook request and decide where its events go. Every path that receives a webhook calls this function.

It only computes: it waits for nothing and writes nothing. So the direct path can call it from the HTTP parser, and a
request that it rejects has changed nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from onceward.inbox.compressed import coding_of, verified
from onceward.inbox.headers import Headers, kept
from onceward.inbox.routing import Batch, EventRouter, batch
from onceward.inbox.source import Source
from onceward.webhooks.payload import body_key
from onceward.webhooks.provider import ProviderReply, ReceivedItem, Rejected, Request

MOST_ITEMS = 10_000
ROUTE = "/webhooks/{source}"
SPAN = f"POST {ROUTE}"


class Intake(NamedTuple):
    """The events of a verified request. `items[n]` is the event that `events[n]` stores."""

    items: Sequence[ReceivedItem]
    events: Batch


def verify_and_route(
    router: EventRouter, source: Source, request: Request, headers: Headers, now: float
) -> Intake | ProviderReply:
    """Return the events of an authentic request, or the reply to a handshake. Raise Rejected for all other requests.

    `headers` are the headers of `request`, and `now` is the time in Unix seconds.
    """
    provider, config = source.provider, source.config
    if b"content-encoding" in headers.raw and (coding := coding_of(request)):
        request = verified(provider, config, request, coding, source.max_body_bytes, now)
    else:
        provider.verify(config, request, now)
    reply = provider.challenge(config, request)
    if reply is not None:
        return reply
    items = provider.parse(config, request)
    body = request.body
    if not items:
        # The request is authentic but contains no event that we recognise. It is stored whole: every 2xx has a row.
        items = [ReceivedItem(body_key(body), "empty", _whole(body))]
    kept_headers = kept(headers, source.kept_headers)
    if len(items) == 1:
        return Intake(items, (router.route_event(source, items[0], body, source.signature_of(headers), kept_headers),))
    if len(items) > MOST_ITEMS:
        raise Rejected("bad_body", f"the body contains {len(items)} events; the maximum is {MOST_ITEMS}")
    return Intake(items, batch(router, source, items, body, source.signature_of(headers), kept_headers))


def span_attributes(source: Source, intake: Intake) -> dict[str, str | int]:
    """Return the attributes of the span of a verified request."""
    return {
        "http.request.method": "POST",
        "http.route": ROUTE,
        "onceward.source": source.name,
        "onceward.provider": source.provider.name,
        "messaging.batch.message_count": len(intake.items),
    }


def _whole(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
