"""Texts that people send to us: the engine obeys STOP, START and HELP, unless the app's handler does so itself.

An organization's source, or the number that was written to, says who must stop. At a number of the whole installation,
STOP ends everything that leaves through the installation's account, whichever organization it is of
(`onceward.begin_sends`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Literal

from onceward.db import Transaction
from onceward.integration import integrations
from onceward.messages.delivery import act_for
from onceward.messages.message_queue import Sending, queue
from onceward.messages.phones import BadNumber, read_number, variants
from onceward.messages.preferences import heard_from, opt_in, opt_out
from onceward.messages.recipient import ChannelName
from onceward.messages.replies import Reply, language_of, read_reply
from onceward.messages.senders import SenderKind, organization_of_sender
from onceward.messages.templates import Templates
from onceward.work import Waker

OBEYED: tuple[Reply, ...] = ("stop", "start", "help")


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundText:
    """A text of a person. `ours` is the number that received it, as `onceward.senders` names it."""

    channel: Literal["sms", "whatsapp"]
    kind: SenderKind
    ours: str
    sender: str = field(repr=False)
    answers: tuple[str, ...] = field(repr=False)
    """What may be an answer: ids of buttons first."""
    written: str = field(repr=False)
    """What the person sees as their message."""
    sent_at: datetime
    is_answered: bool = False
    """Whether the service itself answers STOP, START and HELP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundTexts:
    """What an integration declares as texts of people: the event types, whom they come from, and how one is read.

    `ordering` is as in `@app.on`. `read` gets the payload and when it was received; None means that it is not a text.
    """

    types: tuple[str, ...]
    ordering: bool | str
    read: Callable[[Any, datetime], InboundText | None]


@cache
def inbound_texts() -> Mapping[str, InboundTexts]:
    """Return the inbound texts of the installed integrations, by provider."""
    declared = integrations().having("inbound_texts")
    return {each.name: integrations().load(each.name, "inbound_texts") for each in declared}


def is_inbound_text(provider: str, type: str) -> bool:
    """Return whether an event of this type is a text of a person."""
    declared = inbound_texts().get(provider)
    return declared is not None and type in declared.types


async def obey_reply(
    tx: Transaction, text: InboundText | None, *, event: int, templates: Templates, waker: Waker | None
) -> dict[str, Any]:
    """Record the opt-out of a STOP or the opt-in of a START, and answer it and HELP. Return what was obeyed."""
    reply = None if text is None else read_reply(*text.answers, allowed=OBEYED)
    if text is None or reply is None:
        return {"reply": None}
    try:
        number = read_number(text.sender, international=True)
    except BadNumber:
        return {"reply": None}
    before, becomes_engine = tx.organization, tx.role == "app"
    owner = before or await organization_of_sender(tx, text.kind, text.ours)
    if becomes_engine:
        await tx.become_engine()
    if owner != before:
        await act_for(tx, owner)
    await _obey(tx, reply, text, number)
    if not text.is_answered:
        await _answer(tx, reply, text, number, event=event, templates=templates, waker=waker)
    if owner != before:
        await act_for(tx, before)
    if becomes_engine:
        await tx.become_app()
    return {"reply": reply}


async def _obey(tx: Transaction, reply: Reply, text: InboundText, number: str) -> None:
    if reply not in ("stop", "start"):
        return
    decide = opt_out if reply == "stop" else opt_in
    for each in variants(number):
        await decide(tx, each, channel=text.channel, source="reply", wording=text.written)


async def _answer(
    tx: Transaction,
    reply: Reply,
    text: InboundText,
    number: str,
    *,
    event: int,
    templates: Templates,
    waker: Waker | None,
) -> None:
    """Send the app's answer, or the built-in one, in the language of the word. A repeated event sends no second one."""
    if text.channel == "whatsapp":
        await heard_from(tx, number, at=text.sent_at)  # opens the 24 hours in which free text may be sent
    locale = next((found for each in text.answers if (found := language_of(each, reply)) is not None), None)
    channel: ChannelName = text.channel
    sending = Sending(to=number, key=f"reply:{event}", locale=locale)
    await queue(tx, templates.get(f"reply-{reply}"), [sending], channel=channel, waker=waker)
