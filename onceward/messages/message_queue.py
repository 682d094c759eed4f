"""Queue messages in the caller's transaction. A key is used once: queueing it again creates no second message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from onceward.db import RawJson, Transaction, clean_json, clean_text, is_storable
from onceward.messages.attachments import Attachment, check_count
from onceward.messages.lines import own_secrets
from onceward.messages.policies import POLICIES
from onceward.messages.recipient import CHANNELS, ChannelName, as_recipient
from onceward.messages.templates import Template
from onceward.statements import named, read_statement
from onceward.telemetry.caller import caller_text
from onceward.work import Waker

MAX_KEY_CHARACTERS = 500
MAX_DATA_BYTES = 256 << 10
AT_ONCE = 5000

INSERT = named(read_statement("messages", "queue_messages"))
EXISTING = read_statement("messages", "find_messages")
CANCEL = read_statement("messages", "cancel_messages")


@dataclass(frozen=True, slots=True)
class Queued:
    """The id of the message. `duplicate` is true if a message with the same key existed already."""

    id: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """One message of a batch that uses the same template."""

    to: Any = field(repr=False)
    key: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    locale: str | None = None
    not_before: datetime | None = None
    expires_at: datetime | None = None
    """The message is not sent at this time or later."""
    attachments: Sequence[Attachment] = ()


async def queue(
    tx: Transaction,
    template: Template,
    sendings: Sequence[Sending],
    *,
    channel: ChannelName | None = None,
    policy: str | None = None,
    notification: int | None = None,
    waker: Waker | None = None,
) -> list[Queued]:
    """Write the messages. One whose key exists already stays unchanged and is returned as a duplicate."""
    used = channel or template.channel
    if used not in CHANNELS:
        raise ValueError(f"channel must be one of {', '.join(CHANNELS)}, not {used!r}")
    if used != "email" and any(each.attachments for each in sendings):
        raise ValueError(f"channel {used} cannot carry attachments: only email can")
    retry = POLICIES[policy or template.policy]
    queued: list[Queued] = []
    context = caller_text()
    for start in range(0, len(sendings), AT_ONCE):
        part = sendings[start : start + AT_ONCE]
        rows = await tx.fetch(
            INSERT.text,
            *INSERT.values(
                **_columns(part, used),
                organization=tx.organization,
                channel=used,
                template=template.name,
                version=template.version,
                category=template.category,
                policy=policy or template.policy,
                notification=notification,
                caused_by=None if tx.cause is None else tx.cause.id,
                task=task_of(used),
                bulk=template.bulk,
                own=[] if used in template.installation_account else own_secrets(used),
                max_attempts=retry.max_attempts,
                context=None if context is None else RawJson(context),
                content=template.content,
            ),
        )
        if waker is not None:
            for name in {row["queue"] for row in rows}:
                tx.after_commit(partial(waker.wake, name))
        queued += await _in_input_order(tx, part, {row["key"]: row["id"] for row in rows})
    return queued


def task_of(channel: str) -> str:
    return f"message:{channel}"


async def _in_input_order(tx: Transaction, part: Sequence[Sending], written: dict[str, int]) -> list[Queued]:
    """Return results in the order of the input. Of two equal keys in one batch, the second is a duplicate."""
    existing: dict[str, int] = {}
    missing = [each.key for each in part if each.key not in written]
    if missing:
        existing = {row["key"]: row["id"] for row in await tx.fetch(EXISTING, tx.organization, missing)}
    results: list[Queued] = []
    seen: set[str] = set()
    for each in part:
        if each.key in written and each.key not in seen:
            results.append(Queued(written[each.key]))
        else:
            results.append(Queued(written.get(each.key) or existing[each.key], duplicate=True))
        seen.add(each.key)
    return results


def _columns(part: Sequence[Sending], channel: ChannelName) -> dict[str, list[Any]]:
    people = [as_recipient(each.to, channel) for each in part]
    return {
        "keys": [_key(each.key) for each in part],
        "recipients": [_clean(person.name(channel)) for person in people],
        "addresses": [_clean(person.address(channel)) for person in people],
        "data": [_data(each) for each in part],
        "locales": [each.locale or person.locale for each, person in zip(part, people, strict=True)],
        "timezones": [person.timezone for person in people],
        "scheduled_for": [_aware("not_before", each.not_before) for each in part],
        "expires_at": [_expiry(each) for each in part],
        "attachments": [_attachments(each) for each in part],
    }


def _key(key: str) -> str:
    if not key or len(key) > MAX_KEY_CHARACTERS:
        raise ValueError(f"key must have 1 to {MAX_KEY_CHARACTERS} characters, not {len(key)}: {key[:40]!r}")
    if not is_storable(key):
        raise ValueError(f"key contains NUL or half of a surrogate pair, which PostgreSQL cannot store: {key[:40]!r}")
    return key


def _clean(text: str | None) -> str | None:
    return None if text is None else clean_text(text)


def _data(each: Sending) -> RawJson:
    # Cleaned instead of refused: an invalid character in a name must not prevent the mail.
    text = clean_json(dict(each.data))
    if len(text) > MAX_DATA_BYTES:
        raise ValueError(
            f"data of message {each.key!r} has {len(text)} bytes, more than the maximum of {MAX_DATA_BYTES}"
        )
    return RawJson(text)


def _attachments(each: Sending) -> RawJson | None:
    if not each.attachments:
        return None
    check_count(each.attachments, each.key)
    return RawJson(clean_json([attachment.as_json() for attachment in each.attachments]))


async def deadline(
    tx: Transaction, *, expires_at: datetime | None, within: timedelta | None, not_before: datetime | None
) -> datetime | None:
    """Return the end of a message's time: given as such, or as the time within which it must be sent."""
    if within is None:
        return expires_at
    if expires_at is not None:
        raise ValueError("give expires_at or within, not both")
    if within <= timedelta(0):
        raise ValueError(f"within={within} must be positive")
    return (not_before or await tx.fetchval("select onceward.now()")) + within


def _expiry(each: Sending) -> datetime | None:
    expires_at = _aware("expires_at", each.expires_at)
    if expires_at is not None and each.not_before is not None and expires_at <= each.not_before:
        raise ValueError(
            f"message {each.key!r} expires at {expires_at.isoformat()}, before not_before={each.not_before.isoformat()}"
        )
    return expires_at


def _aware(name: str, moment: datetime | None) -> datetime | None:
    if moment is not None and moment.tzinfo is None:
        raise ValueError(f"{name}={moment} has no time zone; use an aware datetime")
    return moment


async def cancel(tx: Transaction, key: str, *, reason: str = "cancelled") -> bool:
    """Cancel the message with this key.

    Return False if the message was sent, a worker is sending it at this moment, or it does not exist.
    """
    return await cancel_many(tx, [key], reason=reason) > 0


async def cancel_many(tx: Transaction, keys: Sequence[str], *, reason: str = "cancelled") -> int:
    """Cancel the messages with these keys that no worker is sending, and return how many were cancelled."""
    row = await tx.fetchrow(CANCEL, tx.organization, list(keys), reason)
    assert row is not None
    return row["cancelled"]
