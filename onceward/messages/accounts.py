"""Channels through an organization's own account. An organization without one uses the installation's channels."""

from __future__ import annotations

from uuid import UUID

from onceward.messages import channels
from onceward.messages.channel import Channel
from onceward.messages.channels.sms import Callback, no_callback
from onceward.messages.errors import NotConfigured
from onceward.services import NotSet, ServiceName, Services

SERVICE_OF: dict[str, ServiceName] = {"sms": "twilio", "whatsapp": "whatsapp", "slack": "slack", "email": "brevo"}


class OrganizationChannels:
    """Creates the channel of an organization from its secrets, such as `twilio.auth_token` (docs/services.md)."""

    def __init__(self, services: Services, *, callback: Callback = no_callback) -> None:
        """`callback` finds the address that Twilio sends delivery reports to; without it there are none."""
        self._services = services
        self._callback = callback

    async def find(self, name: str, organization: UUID | None) -> Channel | None:
        """Return the organization's own channel, or None if it has no account for it. Raises `NotConfigured`."""
        service = SERVICE_OF.get(name)
        if service is None or organization is None:
            return None
        if not await self._services.has_own_account(service, organization):
            return None
        try:
            return await self._open(name, organization)
        except NotSet as error:
            raise NotConfigured(str(error)) from None

    async def _open(self, name: str, organization: UUID) -> Channel:
        match name:
            case "sms":
                twilio = await self._services.twilio(organization)
                sender = _sender(twilio.sender, "twilio.from", organization)
                return channels.SmsChannel(twilio, sender=sender, callback=self._callback)
            case "whatsapp":
                return channels.WhatsAppChannel(await self._services.whatsapp(organization))
            case "slack":
                return channels.SlackChannel(await self._services.slack(organization))
            case _:
                brevo = await self._services.brevo(organization)
                return channels.BrevoChannel(brevo, sender=_sender(brevo.sender, "brevo.from", organization))


def _sender(value: str | None, secret: str, organization: UUID) -> str:
    if value is None:
        raise NotSet(
            f"organization {organization} has an account of its own, but its sender {secret} is missing: "
            f"run `onceward secrets set {organization} {secret}`"
        )
    return value
