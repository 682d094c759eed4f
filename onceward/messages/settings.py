"""The settings of the messages feature: who gets alerts, the defaults of recipients, and how fast messages are sent."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from onceward.settings.environment import PREFIX, FeatureSettings, Words


class MessagesSettings(FeatureSettings):
    environment_prefix: ClassVar[str] = PREFIX

    admin_emails: Words = Field(
        default=(), description="Recipients of alerts: dead letters, failed runs and other problems."
    )
    fraud_emails: Words = Field(
        default=(), description="Recipients of alerts about wrong amounts or currencies; empty: admins."
    )
    accounting_emails: Words = Field(default=(), description="Recipients of alerts about the ledger; empty: admins.")
    security_emails: Words = Field(default=(), description="Recipients of alerts about bad signatures; empty: admins.")
    brand: str = Field(default="Onceward", description="Name in the header and footer of emails.")
    default_locale: str = Field(default="en", description="Language of messages to recipients without a language.")
    default_timezone: str = Field(default="UTC", description="Time zone of recipients without a time zone.")
    quiet_hours: str | None = Field(
        default=None,
        description="Hours in the recipient's time zone when only transactional messages are sent: `21:00-08:00`.",
    )
    email_per_s: float = Field(default=0, ge=0, description="Emails per second, across all workers; 0 means no limit.")
    sms_per_s: float = Field(
        default=0, ge=0, description="Text messages per second, across all workers; 0 means no limit."
    )
    mail_from: str = Field(default="Onceward <no-reply@localhost>", description="Sender of emails.")
