"""What a message says and when it may be sent: hours, time zone, language, and the texts of its template."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from onceward.messages.attachments import LoadedAttachment
from onceward.messages.channel import Letter
from onceward.messages.errors import NotYet
from onceward.messages.hours import Quiet, next_allowed, zone_or_default
from onceward.messages.kind import Message
from onceward.messages.phones import zone_of
from onceward.messages.rendering import Rendered, render
from onceward.messages.templates import Template
from onceward.messages.troubles import TemplateText

LOOK_AFTER_S = 30.0
"""A service may need some seconds before a lookup finds a message that it accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingOptions:
    """Defaults for all messages of an installation."""

    default_locale: str = "en"
    default_timezone: str = "UTC"
    quiet: Quiet | None = None
    brand: str = "Onceward"
    public_url: str | None = None
    look_after_s: float = LOOK_AFTER_S


class Composer:
    """Composes messages with the defaults of the installation."""

    def __init__(self, options: SendingOptions) -> None:
        self._options = options

    def check_hours(self, message: Message, template: Template) -> None:
        """Raise `NotYet` outside the hours of the recipient or of the template."""
        options = self._options
        quiet = options.quiet
        if message.quiet_from is not None and message.quiet_to is not None:
            quiet = Quiet(message.quiet_from, message.quiet_to)
        if not template.respects_quiet:
            quiet = None
        window = template.window
        if quiet is None and window is None:
            return
        zone = self.zone(message)
        allowed = next_allowed(message.now, zone, quiet=quiet, window=window)
        if allowed is not None:
            raise NotYet((allowed - message.now).total_seconds(), f"quiet until {allowed.isoformat()}")

    def text_of(self, message: Message, template: Template) -> TemplateText:
        """Return the template in the language in which the recipient gets it."""
        return TemplateText(template.name, template.locale_for(message.locale, self._options.default_locale))

    def zone(self, message: Message) -> ZoneInfo:
        """Return the recipient's time zone: the known one, or that of the phone number, or the default."""
        known = message.timezone
        if known is None and message.address is not None and message.channel in ("sms", "whatsapp"):
            known = zone_of(message.address)
        return zone_or_default(known, self._options.default_timezone)

    def render(
        self,
        message: Message,
        template: Template,
        *,
        unsubscribe_url: str | None = None,
        links: Collection[str] = (),
    ) -> Rendered:
        """Render the text for the recipient."""
        return render(
            template,
            message.data or {},
            locale=message.locale,
            default_locale=self._options.default_locale,
            zone=self.zone(message),
            channel=message.channel,
            brand=self._options.brand,
            unsubscribe_url=unsubscribe_url,
            own_links=links,
        )

    def letter(
        self,
        message: Message,
        template: Template,
        to: str,
        attachments: tuple[LoadedAttachment, ...] = (),
        links: Collection[str] = (),
    ) -> Letter:
        """Return what the channel sends. `links` are URLs of our own in the data, which become links."""
        unsubscribe_url = None
        if message.token is not None and self._options.public_url is not None:
            unsubscribe_url = f"{self._options.public_url}/unsubscribe/{message.token}"
        rendered = self.render(message, template, unsubscribe_url=unsubscribe_url, links=links)
        return Letter(
            id=message.id,
            key=f"message:{message.id}:send",
            to=to,
            rendered=rendered,
            template=template,
            data=message.data or {},
            organization=message.organization_id,
            recipient=message.recipient,
            unsubscribe_url=unsubscribe_url,
            heard_at=message.heard_at,
            destination=message.destination,
            sending_since=message.sending_since,
            expires_at=message.expires_at,
            attachments=attachments,
        )
