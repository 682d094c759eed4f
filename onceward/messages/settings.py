"""The settings of the messages feature: who gets alerts, the defaults of recipients, and how fast messages are sent."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from onceward.settings.environment import PREFIX, AsText, FeatureSettings, Words


def read_pairs(value: object) -> object:
    """Read `sms=0.07,whatsapp=0.04`. The prices are checked here, so that a wrong one is reported at start."""
    if not isinstance(value, str):
        return value
    pairs: dict[str, str] = {}
    for each in value.split(","):
        channel, _, price = each.strip().partition("=")
        if not channel:
            continue
        pairs[channel] = price
        try:
            number = Decimal(price)
        except ArithmeticError:
            raise ValueError(f"the price of {channel!r} is {price!r}, not a number such as 0.05") from None
        if not number.is_finite() or number < 0:
            raise ValueError(f"the price of {channel!r} is {price!r}: it must be a number of at least 0")
    return pairs


class MessagesSettings(FeatureSettings):
    """The settings of messages: who gets alerts, defaults of recipients, rates and prices."""

    environment_prefix: ClassVar[str] = PREFIX

    admin_emails: Words = Field(
        default=(),
        description=(
            "Recipients of alerts: dead letters, failed runs and other problems. Those of an organization go "
            "to its owners."
        ),
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
    mail_return_path: str | None = Field(
        default=None,
        description="Address that bounces come back to; each mail adds its number: `bounces+m41-...@example.org`.",
    )
    mail_host_name: str | None = Field(
        default=None, description="Host name in EHLO to the mail server; default: the host of `ONCEWARD_PUBLIC_URL`."
    )
    message_prices: Annotated[dict[str, str], AsText, BeforeValidator(read_pairs)] = Field(
        default_factory=dict,
        description="Price of one message per channel, for the message report: `sms=0.07,whatsapp=0.04`.",
    )
    message_currency: str = Field(default="EUR", description="Currency of `ONCEWARD_MESSAGE_PRICES`.")
    release: str | None = Field(
        default=None,
        max_length=200,
        description="What runs, and who released it: `1.4.2, alice`. Kept with each version of a template.",
    )
    mail_from: str = Field(default="Onceward <no-reply@localhost>", description="Sender of emails.")
