"""One mail in the morning instead of single ones: recipients choose it per topic on the preference page.

A template with `digest = true` may be gathered. Its message waits until the digest of its recipient and topic is sent,
and then ends like the digest; so its hooks run once, with the real outcome. The digest is a message of the template
`digest` with a key of its own per recipient, topic and morning. When it is sent it is closed: a message that comes
later goes into the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from onceward.db import Database, Transaction
from onceward.messages.errors import MessageRejected, NotYet
from onceward.messages.kind import LOAD, Message
from onceward.messages.message_queue import Sending, queue
from onceward.messages.preference_page import preference_link, title_of
from onceward.messages.recipient import Recipient
from onceward.messages.rendering import Rendered
from onceward.messages.template_versions import TemplateVersions
from onceward.messages.templates import Template, Templates
from onceward.statements import read_statement
from onceward.work import PayloadInvalid

NAME = "digest"
MORNING = time(8)
WITHIN = timedelta(hours=30)
"""A digest that could not be sent until then is expired: the next one is near."""
LOOK_AGAIN_S = 20.0
STUCK_S = 600.0
"""How long a message waits if its digest became a dead letter or is unknown: an operator must decide about it."""

FIND = read_statement("messages", "find_digest")
ENTER = """
insert into onceward.digest_entries (message, digest, organization_id) values ($1, $2, $3)
on conflict (message) do nothing
"""
IS_CLOSED = "select status <> 'pending' or data ? 'closed' from onceward.messages where id = $1 for update"
CLOSE = "update onceward.messages set data = data || '{\"closed\": true}' where id = $1"
CLOSE_ENTRIES = read_statement("messages", "close_digest")
SENT_IN = """
select e.digest from onceward.digest_entries e join onceward.messages d on d.id = e.digest
 where e.message = $1 and e.is_included and d.status = 'success'
"""
LEAVE = "delete from onceward.digest_entries where message = any($1::bigint[])"

Render = Callable[[Message, Template], Rendered]


@dataclass(frozen=True, slots=True)
class Filled:
    """The digest with the texts of its messages, and the URLs in them that are our own."""

    message: Message
    links: frozenset[str]


def next_morning(now: datetime, zone: ZoneInfo, period: str) -> datetime:
    """Return the next local morning, for a weekly digest that of a Monday."""
    day = now.astimezone(zone).date()
    while True:
        moment = datetime.combine(day, MORNING, tzinfo=zone).astimezone(UTC)
        if moment > now and (period == "daily" or day.weekday() == 0):
            return moment
        day += timedelta(days=1)


class Digests:
    """Gathers messages for the digest of their recipient, and fills digests with what was gathered."""

    def __init__(
        self,
        db: Database,
        templates: Templates,
        versions: TemplateVersions,
        *,
        default_locale: str = "en",
        public_url: str | None = None,
    ) -> None:
        self._db = db
        self._templates = templates
        self._versions = versions
        self._default_locale = default_locale
        self._public_url = public_url

    async def gather(self, message: Message, template: Template, zone: ZoneInfo) -> dict[str, Any] | None:
        """Return None if the message is sent alone, or its result after its digest. Raises `NotYet` until then."""
        if not template.digest or message.channel != "email" or message.sending_since is not None:
            return None
        row = await self._db.fetchrow(
            FIND, message.id, message.organization_id, message.recipient, message.address, message.category
        )
        if row is None:
            return None
        if row["digest"] is not None:
            return await self._follow(message, dict(row))
        due = next_morning(message.now, zone, row["period"])
        if message.expires_at is not None and message.expires_at <= due:
            return None  # It would expire before the digest.
        await self._enter(message, due)
        raise _waits(message, due)

    async def sent_in(self, message: Message) -> dict[str, Any] | None:
        """Return the result of a message whose digest was sent before the message expired, or None."""
        if message.channel != "email":
            return None
        digest = await self._db.fetchval(SENT_IN, message.id)
        return None if digest is None else _sent_in(message, digest)

    async def _follow(self, message: Message, row: Mapping[str, Any]) -> dict[str, Any] | None:
        digest, status = row["digest"], row["status"]
        if status in ("pending", "processing"):
            raise _waits(message, row["scheduled_for"])
        if status in ("dead_letter", "unknown"):
            raise NotYet(STUCK_S, f"waits for digest {digest}, whose state is {status}")
        if not row["is_included"]:
            # The digest ended without this message, for example because it expired before it was closed.
            await self._db.execute(LEAVE, [message.id])
            raise NotYet(0.1, f"digest {digest} ended without it")
        if status == "success":
            return _sent_in(message, digest)
        if status == "failed":
            raise MessageRejected(f"its digest {digest} was refused: {row['reason']}")
        return {"suppressed": "expired" if status == "expired" else row["reason"] or status}

    async def _enter(self, message: Message, due: datetime) -> None:
        frame = self._templates.get(NAME)
        topic = replace(frame, options={**frame.options, "category": message.category})
        to = Recipient(ref=message.recipient, email=message.address, locale=message.locale, timezone=message.timezone)
        if "@" in message.recipient:
            to = replace(to, ref=None, email=message.recipient)
        async with self._db.transaction(role="engine", organization=message.organization_id) as tx:
            key = f"digest:{message.category}:{due:%Y-%m-%d}:{message.recipient}"
            sending = Sending(to=to, key=key, data={}, not_before=due, expires_at=due + WITHIN)
            [queued] = await queue(tx, topic, [sending], channel="email")
            if await tx.fetchval(IS_CLOSED, queued.id):
                raise NotYet(LOOK_AGAIN_S, f"digest {queued.id} is being sent")
            await tx.execute(ENTER, message.id, queued.id, message.organization_id)

    async def fill(self, digest: Message, render: Render) -> Filled | None:
        """Close the digest and return it with the texts of its messages, or None if it has none.

        A message that cannot be rendered leaves the digest, and fails alone.
        """
        async with self._db.transaction(role="engine", organization=digest.organization_id) as tx:
            await tx.fetchval(IS_CLOSED, digest.id)  # locks it: nobody enters from here on
            ids = [row["message"] for row in await tx.fetch(CLOSE_ENTRIES, digest.id)]
            messages = [Message(**row) for row in await tx.fetch(LOAD, ids)]
            items, failed = await self._render(sorted(messages, key=lambda each: each.id), render)
            if failed:
                await tx.execute(LEAVE, failed)
            await tx.execute(CLOSE, digest.id)
            data = await self._frame_data(tx, digest)
        if not items:
            return None
        data["items"] = [{"subject": each.subject, "text": each.text} for each in items]
        return Filled(replace(digest, data=data), frozenset(link for each in items for link in each.links))

    async def _render(self, messages: list[Message], render: Render) -> tuple[list[Rendered], list[int]]:
        items: list[Rendered] = []
        failed: list[int] = []
        for each in messages:
            try:
                items.append(render(each, await self._versions.of(each)))
            except PayloadInvalid:
                failed.append(each.id)
        return items, failed

    async def _frame_data(self, tx: Transaction, digest: Message) -> dict[str, Any]:
        locale = digest.locale or self._default_locale
        data: dict[str, Any] = {
            "topic": title_of(self._templates, digest.category, locale, self._default_locale),
            "preferences_url": None,
        }
        if self._public_url is not None:
            data["preferences_url"] = await preference_link(tx, digest.recipient, public_url=self._public_url)
        return data


def _sent_in(message: Message, digest: int) -> dict[str, Any]:
    return {"reference": f"digest:{digest}", "channel": message.channel}


def _waits(message: Message, due: datetime) -> NotYet:
    wait_s = max((due - message.now).total_seconds(), 0.0) + LOOK_AGAIN_S
    return NotYet(wait_s, f"waits for the digest of {due.isoformat()}")
