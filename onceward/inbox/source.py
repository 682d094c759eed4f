"""A source: one configured sender of webhooks, ready to verify its requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, cast
from uuid import UUID

import orjson

from onceward.providers.inbound.provider import ConfigError, Provider, SourceConfig
from onceward.providers.inbound.registry import get_provider
from onceward.trust import SecretBox

Mode = Literal["ack", "inline", "external"]

TABLE = "onceward.sources"
COLUMN = "secrets"
SECRET_OPTIONS = frozenset({"verify_token"})
"""Options that are secrets themselves: they are sealed with the others and never listed."""

SIGNATURE_HEADERS: Mapping[str, tuple[str, ...]] = {
    "stripe": ("stripe-signature",),
    "paypal": ("paypal-transmission-sig",),
    "calcom": ("x-cal-signature-256",),
    "formbricks": ("webhook-signature",),
    "twilio": ("x-twilio-signature",),
    "whatsapp": ("x-hub-signature-256",),
    "daily": ("x-webhook-signature",),
    "github": ("x-hub-signature-256",),
    "slack": ("x-slack-signature",),
    "standard": ("webhook-signature", "svix-signature"),
}
"""Where each sender puts what is kept in the column `signature`; of `generic` the options say it."""


@dataclass(frozen=True, slots=True)
class Secret:
    """One live secret. `until`: it was rotated out and is believed until then."""

    value: str = field(repr=False)
    until: datetime | None = None

    def live(self, now: datetime) -> bool:
        return self.until is None or self.until > now


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """What the receiver knows of a sender. One object per source and reading, so it is compared by identity."""

    webhook_id: UUID
    name: str
    organization: UUID | None
    mode: Mode
    config: SourceConfig
    provider: Provider
    ordering: bool = False
    rate_per_s: float | None = None
    max_body_bytes: int = 1 << 20
    paused: bool = False
    signature_headers: tuple[str, ...] = ()
    route: str = ""
    """The name that handlers of these events are looked up under: the source's own unless the address says another."""
    only_stores: bool = field(init=False)
    """Whether its requests are answered as soon as they are committed, and nothing must be fetched to verify them."""

    def __post_init__(self) -> None:
        if not self.route:
            object.__setattr__(self, "route", self.name)
        object.__setattr__(self, "only_stores", (self.mode != "inline" or self.paused) and not self.provider.fetches)

    @property
    def stored_route(self) -> str | None:
        """What the event's row keeps of the route: nothing where it is the source's name, which may change."""
        return None if self.route == self.name else self.route

    def signature_of(self, headers: Mapping[str, str]) -> str | None:
        """What is kept of a request's proof, for people who look into a dispute."""
        for name in self.signature_headers:
            value = headers.get(name)
            if value is not None:
                return value[:4096] if value.isascii() and value.isprintable() else None
        return None

    @property
    def lane(self) -> str:
        """The lane of a source that is paced: one for all of its events."""
        return f"source:{self.webhook_id}"


def seal(
    box: SecretBox, webhook_id: UUID, secrets: Sequence[Secret], options: Mapping[str, Any]
) -> tuple[bytes, dict[str, Any]]:
    """The sealed column, and the options that may be read."""
    hidden = {name: value for name, value in options.items() if name in SECRET_OPTIONS}
    text = orjson.dumps(
        {
            "secrets": [{"value": each.value, "until": each.until} for each in secrets],
            "options": hidden,
        }
    )
    sealed = box.seal(text, table=TABLE, row=webhook_id, column=COLUMN)
    return sealed, {name: value for name, value in options.items() if name not in SECRET_OPTIONS}


def unseal(box: SecretBox, webhook_id: UUID, sealed: bytes | None) -> tuple[list[Secret], dict[str, Any]]:
    """The secrets of a source, newest first, and its secret options."""
    if sealed is None:
        return [], {}
    found = orjson.loads(box.open(sealed, table=TABLE, row=webhook_id, column=COLUMN))
    secrets = [
        Secret(each["value"], None if each["until"] is None else datetime.fromisoformat(each["until"]))
        for each in found["secrets"]
    ]
    return secrets, found["options"]


def build(row: Mapping[str, Any], secrets: Sequence[Secret], hidden: Mapping[str, Any]) -> Source:
    """A source from its row; raises ConfigError when it could never verify anything."""
    provider = get_provider(row["provider"])
    now = datetime.now(UTC)
    config = SourceConfig(
        provider=row["provider"],
        secrets=tuple(each.value for each in secrets if each.live(now)),
        public_url=row["public_url"],
        options={**(row["options"] or {}), **hidden},
        tolerance_s=row["tolerance_s"],
    )
    mode = cast(Mode, row["mode"])
    if mode == "inline" and not config.retries:
        raise ConfigError(
            f"source {row['name']}: {provider.title} does not try again after a failure, so mode must be ack",
            field="mode",
        )
    headers = SIGNATURE_HEADERS.get(row["provider"], ())
    if row["provider"] == "generic":
        headers = (config.settings.header.lower(),)
    return Source(
        webhook_id=row["webhook_id"],
        name=row["name"],
        organization=row["organization_id"],
        mode=mode,
        config=config,
        provider=provider,
        ordering=row["ordering"],
        rate_per_s=row["rate_per_s"],
        max_body_bytes=row["max_body_bytes"],
        paused=row["paused_at"] is not None,
        signature_headers=headers,
    )
