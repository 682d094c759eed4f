"""A message from a person, as the webhooks of WhatsApp bring it. Handlers take it as their model:

`Event[WhatsAppReceived]`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import Field

from onceward.webhooks.models import Payload


class Text(Payload):
    body: str = ""


class Button(Payload):
    """An answer to a template's quick reply: `payload` is the id that the template gives the button."""

    payload: str = ""
    text: str = ""


class Choice(Payload):
    id: str = ""
    title: str = ""


class Interactive(Payload):
    button_reply: Choice | None = None
    list_reply: Choice | None = None


class Context(Payload):
    id: str | None = None


class Reaction(Payload):
    """An emoji on one of our messages. Without an emoji the person took it back."""

    message_id: str = ""
    emoji: str = ""


class WhatsAppMessage(Payload):
    """One message, as the Cloud API describes it. `sender` is the number of the person."""

    id: str = Field(min_length=1, max_length=255)
    sender: str = Field(alias="from")
    timestamp: int | None = None
    type: str = "unknown"
    text: Text | None = None
    button: Button | None = None
    interactive: Interactive | None = None
    context: Context | None = None
    reaction: Reaction | None = None

    @property
    def quoted(self) -> str | None:
        """Return the id of the message that this one answers, if the person chose one."""
        if self.reaction is not None and self.reaction.message_id:
            return self.reaction.message_id
        return self.context.id if self.context else None

    @property
    def written(self) -> str:
        """Return what the person sees as their message: the text, or the title of the button."""
        return next((text for text in (*self._titles, *self._ids) if text), "")

    @property
    def answers(self) -> tuple[str, ...]:
        """Return what may be an answer: the ids of buttons, then their titles or the text."""
        return tuple(text for text in (*self._ids, *self._titles) if text)

    def sent_at(self, received_at: datetime) -> datetime:
        """Return when the person sent it, never later than its webhook came: a retry of days must not look new."""
        if self.timestamp is None:
            return received_at
        return min(received_at, datetime.fromtimestamp(self.timestamp, UTC))

    @property
    def _choice(self) -> Choice | None:
        return self.interactive and (self.interactive.button_reply or self.interactive.list_reply)

    @property
    def _ids(self) -> tuple[str, ...]:
        return (*((self.button.payload,) if self.button else ()), *((self._choice.id,) if self._choice else ()))

    @property
    def _titles(self) -> tuple[str, ...]:
        return (
            *((self.text.body,) if self.text else ()),
            *((self.button.text,) if self.button else ()),
            *((self._choice.title,) if self._choice else ()),
            *((self.reaction.emoji,) if self.reaction else ()),
        )


class Metadata(Payload):
    phone_number_id: str = ""


class WhatsAppReceived(Payload):
    """A received message, and the number that it was sent to."""

    metadata: Metadata = Metadata()
    message: WhatsAppMessage
