"""Slack: `X-Slack-Signature: v0=..`, HMAC-SHA256 of `v0:timestamp:body`; events, commands, interactions."""

from __future__ import annotations

from typing import Final

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.payload import (
    Document,
    as_object,
    as_text,
    body_key,
    form_object,
    is_storable,
    item,
    read_form,
    read_object,
)
from onceward.webhooks.provider import Provider, ProviderReply, ReceivedItem, Rejected, Request, SourceConfig

_FORM: Final = "application/x-www-form-urlencoded"


class SlackWebhooks(Provider):
    """Slack expects an answer within 3 s and retries three times in six minutes. The event id is the body's
    `event_id`."""

    name = "slack"
    title = "Slack"
    # Slack shows a body to the user of a slash command, and takes it as a wrong answer to `view_submission`.
    accepted_reply = ProviderReply()

    verification = Hmac(
        header="x-slack-signature",
        signed="v0:{timestamp}:{body}",
        prefix="v0=",
        timestamp="x-slack-request-timestamp",
    )
    events = Events(
        id="event_id", type=("event.type", "type"), ordering="event.channel", data="event", strict_type=True
    )

    def challenge(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        if request.method != "POST" or b"url_verification" not in request.body or _is_form(request):
            return None
        body = read_object(request.body).value
        if body.get("type") != "url_verification":
            return None
        challenge = body.get("challenge")
        if not (isinstance(challenge, str) and challenge.isascii() and 0 < len(challenge) <= 512):
            raise Rejected("bad_body", "url_verification without a challenge that can be echoed")
        return ProviderReply(challenge.encode())

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        if _is_form(request):
            return [_from_form(request)]
        return super().parse(config, request)


def _is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").lower().startswith(_FORM)


def _from_form(request: Request) -> ReceivedItem:
    """A slash command is the form itself, an interaction is JSON in its field `payload`."""
    form = form_object(read_form(request.body))
    if isinstance(form.get("payload"), str) and "command" not in form:
        document = read_object(form["payload"].encode())
        kind = f"interaction.{as_text(document.value.get('type')) or 'unknown'}"
    else:
        document, kind = Document(form, not is_storable(form)), "slash_command"
    value = as_object(document.value)
    # A trigger id belongs to one click. A request without one is identified by a hash of its body.
    trigger = as_text(value.get("trigger_id"))
    channel = value.get("channel_id") or as_object(value.get("channel")).get("id")
    return item(
        document,
        event_id=trigger or body_key(request.body),
        type=kind,
        ordering=as_text(channel),
    )
