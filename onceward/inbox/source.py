"""A source is one configured sender of webhooks, with the secrets that verify its requests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, cast
from uuid import UUID

import orjson

from onceward.inbox.headers import kept_names
from onceward.trust import SecretBox
from onceward.webhooks.provider import ConfigError, Provider, SourceConfig
from onceward.webhooks.registry import get_provider
from onceward.work.commit_lines import Line

Mode = Literal["ack", "inline", "external", "forward"]
WITHOUT_APP: tuple[str, ...] = ("external", "forward")
"""Modes whose events no handler of an app gets."""

NAME = re.compile(r"^[a-z0-9][a-z0-9_-]{0,62}$")
TABLE = "onceward.sources"
COLUMN = "secrets"
SECRET_OPTIONS = frozenset({"verify_token"})
"""Options that are secrets. They are sealed together with the signing secrets and never listed."""


@dataclass(frozen=True, slots=True)
class Secret:
    """One valid secret. `until` is set after a rotation: the secret stays valid until that time."""

    value: str = field(repr=False)
    until: datetime | None = None

    def live(self, now: datetime) -> bool:
        return self.until is None or self.until > now


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """What the receiver knows about a sender.

    Sources are compared by identity: the catalog builds one object per version.
    """

    webhook_id: UUID
    name: str
    organization: UUID | None
    mode: Mode
    config: SourceConfig
    provider: Provider
    app: str | None = None
    """The app whose handlers of the provider get the events. None: those of the only app that has them."""
    ordering: bool = False
    rate_per_s: float | None = None
    requests_per_s: float | None = None
    """The most requests per second that this process accepts (`admission.py`)."""
    requests_at_once: int | None = None
    max_body_bytes: int = 1 << 20
    paused: bool = False
    signature_headers: tuple[str, ...] = ()
    route: str = ""
    """The name used to look up handlers: the source's name, unless the request address implies another."""
    verifies_alone: bool = field(init=False)
    """Whether verification needs the request alone: it fetches and writes nothing, and does not check the address."""
    has_request_limits: bool = field(init=False)
    kept_headers: frozenset[bytes] = field(init=False, repr=False)
    """The names of the headers that are stored with an event."""
    line: Line = field(init=False)
    """In which line its requests wait for a commit: sources of an organization share the turns of the organization."""

    def __post_init__(self) -> None:
        if not self.route:
            object.__setattr__(self, "route", self.name)
        binds = self.provider.binds(self.config)
        object.__setattr__(
            self, "verifies_alone", not self.provider.fetches and not binds and self.config.addresses is None
        )
        limited = self.requests_per_s is not None or self.requests_at_once is not None
        object.__setattr__(self, "has_request_limits", limited)
        object.__setattr__(self, "kept_headers", kept_names(self.provider.name))
        object.__setattr__(self, "line", (self.organization or self.webhook_id, self.webhook_id))

    @property
    def is_inline(self) -> bool:
        """Return whether events are handled inside their requests."""
        return self.mode == "inline" and not self.paused

    @property
    def stored_route(self) -> str | None:
        """Return the route to store with an event: None if it equals the source's name, because a name may change."""
        return None if self.route == self.name else self.route

    def signature_of(self, headers: Mapping[str, str]) -> str | None:
        """Return the signature to store with the event, as evidence in a dispute."""
        for name in self.signature_headers:
            value = headers.get(name)
            if value is not None:
                return value[:4096] if value.isascii() and value.isprintable() else None
        return None

    @property
    def lane(self) -> str:
        """Return the lane that the events of a source share while it has a rate limit or is paused.

        Claims know this name.
        """
        return f"source:{self.webhook_id}"


def seal(
    box: SecretBox, webhook_id: UUID, secrets: Sequence[Secret], options: Mapping[str, Any]
) -> tuple[bytes, dict[str, Any]]:
    """Return the encrypted value of the column `secrets`, and the options that are not secret."""
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
    """Return the secrets of a source, newest first, and its secret options."""
    if sealed is None:
        return [], {}
    opened = orjson.loads(box.open(sealed, table=TABLE, row=webhook_id, column=COLUMN))
    secrets = [
        Secret(each["value"], None if each["until"] is None else datetime.fromisoformat(each["until"]))
        for each in opened["secrets"]
    ]
    return secrets, opened["options"]


def build(row: Mapping[str, Any], secrets: Sequence[Secret], hidden: Mapping[str, Any]) -> Source:
    """Build a source from its row. Raise ConfigError if the source could never verify a request."""
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
            f"source {row['name']}: {provider.title} does not retry a failed delivery, so mode must be ack",
            field="mode",
        )
    return Source(
        webhook_id=row["webhook_id"],
        name=row["name"],
        organization=row["organization_id"],
        mode=mode,
        config=config,
        provider=provider,
        app=row["app"],
        ordering=row["ordering"],
        rate_per_s=row["rate_per_s"],
        requests_per_s=row["requests_per_s"],
        requests_at_once=row["requests_at_once"],
        max_body_bytes=row["max_body_bytes"],
        paused=row["paused_at"] is not None,
        signature_headers=provider.signature_headers(config),
    )
