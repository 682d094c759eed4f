"""The message service of one process: channels, limits and defaults built from the settings."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from onceward.background import Loop
from onceward.db import Database
from onceward.http import GuardedClient, ServiceClient
from onceward.messages.accounts import OrganizationChannels
from onceward.messages.channel import Channel
from onceward.messages.channels.dashboard import DashboardChannel
from onceward.messages.channels.sms import Callback, no_callback
from onceward.messages.hours import Quiet
from onceward.messages.limits import Limit, forget_old_slots
from onceward.messages.notifications import SlackChannels
from onceward.messages.notifier import Audiences, Notifier
from onceward.messages.pruning import old_messages, prune_records
from onceward.messages.sender import Sender, SendingOptions
from onceward.messages.templates import Templates
from onceward.services import Files, Services
from onceward.settings import Settings
from onceward.work import Registry, Waker

if TYPE_CHECKING:
    from onceward.providers.outbound.smtp import Encryption

ENCRYPTION: dict[str, Encryption] = {"starttls": "starttls", "implicit": "tls", "none": "none"}


class MessageService:
    """Sends messages and reports notices in a worker process; also strips old messages and deletes old counters."""

    def __init__(
        self,
        db: Database,
        settings: Settings,
        templates: Templates,
        registry: Registry,
        *,
        waker: Waker | None = None,
        services: Services | None = None,
        sms_callback: Callback = no_callback,
    ) -> None:
        """`sms_callback` finds the address to which Twilio reports the status of a message."""
        self._client = ServiceClient()
        self._guarded = GuardedClient(allow_loopback_http=settings.allow_loopback_endpoints)
        channels = configured_channels(settings, db, self._client, self._guarded, sms_callback=sms_callback)
        self.sender = Sender(
            db,
            channels,
            templates,
            limits=limits(settings),
            options=sending_options(settings),
            files=Files.at(settings.files_url, settings.data_dir),
            own_channels=None if services is None else OrganizationChannels(services, callback=sms_callback),
        )
        self.sender.install(registry)
        self.notifier = Notifier(
            db, templates, audiences=audiences(settings), slack=slack_channels(settings), waker=waker
        )
        keep = timedelta(days=settings.retention_days)
        self._loops = [
            Loop("old send slots", lambda: forget_old_slots(db), every_s=3600.0),
            Loop("old messages", old_messages(db, keep=keep).all, every_s=60.0),
            Loop("old notifications", partial(prune_records, db, keep), every_s=3600.0),
        ]

    async def start(self) -> None:
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


def configured_channels(
    settings: Settings,
    db: Database,
    client: ServiceClient,
    guarded: GuardedClient,
    *,
    sms_callback: Callback = no_callback,
) -> list[Channel]:
    """Return email, dashboard, and each other channel that has an account in the settings. Imports only those."""
    channels: list[Channel] = [_mail(settings, client), DashboardChannel(db)]
    if settings.slack_bot_token is not None:
        from onceward.messages.channels import SlackChannel
        from onceward.providers.outbound.slack import Slack

        channels.append(
            SlackChannel(Slack(client, settings.slack_bot_token.get_secret_value(), base_url=settings.slack_url))
        )
    elif settings.slack_webhook_url is not None:
        from onceward.messages.channels import SlackWebhookChannel
        from onceward.providers.outbound.slack import SlackWebhook

        channels.append(SlackWebhookChannel(SlackWebhook(guarded, settings.slack_webhook_url.get_secret_value())))
    if settings.twilio_account_sid and settings.twilio_auth_token and settings.twilio_from:
        from onceward.messages.channels import SmsChannel
        from onceward.providers.outbound.twilio import Twilio

        twilio = Twilio(
            client,
            settings.twilio_account_sid,
            settings.twilio_auth_token.get_secret_value(),
            base_url=settings.twilio_url,
        )
        channels.append(SmsChannel(twilio, sender=settings.twilio_from, callback=sms_callback))
    if settings.whatsapp_access_token and settings.whatsapp_phone_number_id:
        from onceward.messages.channels import WhatsAppChannel
        from onceward.providers.outbound.whatsapp import WhatsApp

        token = settings.whatsapp_access_token.get_secret_value()
        channels.append(
            WhatsAppChannel(WhatsApp(client, settings.whatsapp_phone_number_id, token, base_url=settings.whatsapp_url))
        )
    if settings.webpush_private_key and settings.webpush_subject:
        from onceward.messages.channels import PushChannel
        from onceward.providers.outbound.webpush import VapidKey, WebPush

        vapid = VapidKey(settings.webpush_private_key.get_secret_value())
        channels.append(PushChannel(WebPush(guarded, vapid=vapid, subject=settings.webpush_subject)))
    return channels


def _mail(settings: Settings, client: ServiceClient) -> Channel:
    if settings.brevo_api_key is not None:
        from onceward.messages.channels import BrevoChannel
        from onceward.providers.outbound.brevo import Brevo

        return BrevoChannel(
            Brevo(client, settings.brevo_api_key.get_secret_value(), base_url=settings.brevo_url),
            sender=settings.mail_from,
        )
    if settings.smtp_host is not None:
        from onceward.messages.channels import SmtpChannel
        from onceward.providers.outbound.smtp import Relay, Smtp

        relay = Relay(
            host=settings.smtp_host,
            port=settings.smtp_port,
            username=settings.smtp_username,
            password=settings.smtp_password.get_secret_value() if settings.smtp_password else None,
            encryption=ENCRYPTION[settings.smtp_tls],
        )
        return SmtpChannel(Smtp(relay), sender=settings.mail_from)
    from onceward.messages.channels import FolderChannel

    return FolderChannel(settings.data_dir / "mail", sender=settings.mail_from)


def limits(settings: Settings) -> dict[str, list[Limit]]:
    """Return the limits per sender that the settings define; 0 means no limit."""
    configured = {
        name: [Limit(count=1, per_s=1 / per_s) if per_s < 1 else Limit(count=round(per_s), per_s=1.0)]
        for name, per_s in (
            ("email", settings.email_per_s),
            ("sms", settings.sms_per_s),
            ("slack", settings.slack_per_s),
        )
        if per_s
    }
    if settings.whatsapp_interval_ms:
        configured["whatsapp"] = [Limit(count=1, per_s=settings.whatsapp_interval_ms / 1000)]
    return configured


def sending_options(settings: Settings) -> SendingOptions:
    return SendingOptions(
        default_locale=settings.default_locale,
        default_timezone=settings.default_timezone,
        quiet=None if settings.quiet_hours is None else Quiet.parse(settings.quiet_hours),
        brand=settings.brand,
        public_url=settings.url,
    )


def audiences(settings: Settings) -> Audiences:
    return Audiences(
        admin=settings.admin_emails,
        fraud=settings.fraud_emails,
        accounting=settings.accounting_emails,
        security=settings.security_emails,
    )


def slack_channels(settings: Settings) -> SlackChannels:
    """Return the Slack channels by type; none if the settings have no Slack account."""
    if settings.slack_bot_token is None and settings.slack_webhook_url is None:
        return SlackChannels()
    # The URL of an incoming webhook decides the Slack channel, so any name will do.
    default = settings.slack_channel or ("webhook" if settings.slack_webhook_url is not None else None)
    return SlackChannels(settings.slack_channels, default)
