"""Channels through an organization's own account. An organization without one uses the installation's channels."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from onceward.integration import integrations
from onceward.messages.channel import Channel, ChannelSetup, ChannelSource
from onceward.messages.errors import NotConfigured
from onceward.services import NotSet, Services


class OrganizationChannels:
    """Creates the channel of an organization from its secrets, such as `acme.api_key` (docs/services.md)."""

    def __init__(self, services: Services, setup: ChannelSetup) -> None:
        self._services = services
        self._setup = setup
        self._sources: dict[str, list[tuple[str, ChannelSource]]] | None = None

    async def find(self, name: str, organization: UUID | None) -> Channel | None:
        """Return the organization's own channel, or None if it has no account for it. Raises `NotConfigured`."""
        if organization is None:
            return None
        if self._sources is None:
            self._sources = {}
            for service, source in channel_sources():
                self._sources.setdefault(source.name, []).append((service, source))
        for service, source in self._sources.get(name, ()):
            if source.own is None or not await self._services.has_own_account(service, organization):
                continue
            try:
                return await source.own(self._setup, self._services, organization)
            except NotSet as error:
                raise NotConfigured(str(error)) from None
        return None


def channel_sources() -> Iterator[tuple[str, ChannelSource]]:
    """Return the channels that the installed integrations declare, each with its integration; the preferred ones
    first."""
    declared = [(each.name, integrations().load(each.name, "channel")) for each in integrations().having("channel")]
    yield from sorted(declared, key=lambda each: not each[1].preferred)


def configured_channels(setup: ChannelSetup) -> dict[str, Channel]:
    """Return the channels that have an account in the settings, by name."""
    channels: dict[str, Channel] = {}
    for _, source in channel_sources():
        if source.name not in channels and (channel := source.configured(setup)) is not None:
            channels[source.name] = channel
    return channels
