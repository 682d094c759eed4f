"""The message service of one process: channels, limits and defaults built from the settings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from onceward.background import Loop
from onceward.db import Database
from onceward.http import GuardedClient, ServiceClient
from onceward.messages.accounts import OrganizationChannels, channel_sources, configured_channels
from onceward.messages.channel import Channel, ChannelSetup, ReportAddress, no_reports
from onceward.messages.channels.dashboard import DashboardChannel
from onceward.messages.composer import SendingOptions
from onceward.messages.expiry import release_expired
from onceward.messages.hours import Quiet
from onceward.messages.limits import Limit, forget_old_slots, per_second
from onceward.messages.mail_domains import MailIdentities
from onceward.messages.notifications import SlackChannels, slack_of
from onceward.messages.notifier import Audiences, Notifier
from onceward.messages.retention import old_messages, prune_records
from onceward.messages.sender import Sender
from onceward.messages.settings import MessagesSettings
from onceward.messages.template_versions import record_versions
from onceward.messages.templates import Templates
from onceward.messages.troubles import Troubles
from onceward.services import Files, Services, load_integration_settings
from onceward.settings import Settings
from onceward.trust.secrets import secret_box
from onceward.work import AppRegistry, Waker
from onceward.work.settings import WorkSettings


class MessageService:
    """Sends messages and reports notices in a worker process; also strips old messages and deletes old counters."""

    def __init__(
        self,
        db: Database,
        settings: Settings,
        templates: Templates,
        registry: AppRegistry,
        *,
        waker: Waker | None = None,
        services: Services | None = None,
        report_address: Callable[[str], ReportAddress] = no_reports,
    ) -> None:
        """`report_address` returns, for a service, what finds the address to which it reports the delivery of a
        message."""
        self._client = ServiceClient()
        self._guarded = GuardedClient(allow_loopback_http=settings.allow_loopback_endpoints)
        identities = MailIdentities(db, lambda: secret_box(settings), settings.of(MessagesSettings).mail_from)
        setup = ChannelSetup(
            settings=settings,
            client=self._client,
            guarded=self._guarded,
            mail_identity=identities.find,
            report_address=report_address,
        )
        self._record_versions = partial(record_versions, db, templates, settings.of(MessagesSettings).release)
        self.troubles = Troubles(db)
        self.sender = Sender(
            db,
            all_channels(setup, db),
            templates,
            limits=limits(setup),
            options=sending_options(settings),
            files=Files.at(settings.files_url, settings.data_dir),
            own_channels=None if services is None else OrganizationChannels(services, setup),
            troubles=self.troubles,
        )
        self.sender.install(registry)
        self.notifier = Notifier(
            db,
            templates,
            audiences=audiences(settings),
            slack=slack_channels(settings),
            slack_of=None if services is None else partial(slack_of, services),
            waker=waker,
        )
        keep = timedelta(days=settings.of(WorkSettings).retention_days)
        self._loops = [
            Loop("refused accounts", self.troubles.step, every_s=2.0),
            Loop("expired messages", partial(release_expired, db, waker), every_s=1.0),
            Loop("old send slots", lambda: forget_old_slots(db), every_s=3600.0),
            Loop("old messages", old_messages(db, keep=keep).all, every_s=60.0),
            Loop("old notifications", partial(prune_records, db, keep), every_s=3600.0),
        ]

    async def start(self) -> None:
        await self._record_versions()
        await self.troubles.probe_installation()
        await self.notifier.start()
        for loop in self._loops:
            await loop.start()

    async def stop(self) -> None:
        for loop in self._loops:
            await loop.stop()
        await self.notifier.stop()
        await self.sender.aclose()
        await self._client.aclose()
        await self._guarded.aclose()


def all_channels(setup: ChannelSetup, db: Database) -> list[Channel]:
    """Return email, dashboard, and each other channel that has an account in the settings."""
    channels = configured_channels(setup)
    if "email" not in channels:
        from onceward.messages.channels.folder import FolderChannel

        channels["email"] = FolderChannel(
            setup.settings.data_dir / "mail", sender=setup.settings.of(MessagesSettings).mail_from
        )
    return [*channels.values(), DashboardChannel(db)]


def limits(setup: ChannelSetup) -> dict[str, list[Limit]]:
    """Return the limits per sender that the settings define: those of the messages, and those of the integrations."""
    own = setup.settings.of(MessagesSettings)
    configured = {"email": per_second(own.email_per_s), "sms": per_second(own.sms_per_s)}
    for _, source in channel_sources():
        if source.limit is not None and configured.get(source.name) is None:
            configured[source.name] = source.limit(setup)
    return {name: [limit] for name, limit in configured.items() if limit is not None}


def sending_options(settings: Settings) -> SendingOptions:
    own = settings.of(MessagesSettings)
    return SendingOptions(
        default_locale=own.default_locale,
        default_timezone=own.default_timezone,
        quiet=None if own.quiet_hours is None else Quiet.parse(own.quiet_hours),
        brand=own.brand,
        public_url=settings.url,
    )


def audiences(settings: Settings) -> Audiences:
    own = settings.of(MessagesSettings)
    return Audiences(
        admin=own.admin_emails,
        fraud=own.fraud_emails,
        accounting=own.accounting_emails,
        security=own.security_emails,
    )


def slack_channels(settings: Settings) -> SlackChannels:
    """Return the Slack channels by type; none if the settings have no Slack account."""
    own = load_integration_settings("slack", settings)
    if own.bot_token is None and own.webhook_url is None:
        return SlackChannels()
    # The URL of an incoming webhook decides the Slack channel, so any name will do.
    default = own.channel or ("webhook" if own.webhook_url is not None else None)
    return SlackChannels(own.channels, default)
