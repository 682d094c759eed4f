"""Turn notices into notifications. The first of a group goes out within seconds; those that follow share one message.

A notice of an organization goes to its owners, its own Slack and its dashboard. What a tenant writes never reaches the
Slack of the installation. If an organization has no owner, its mail and its dashboard entry go to the installation.

Any node may run the notifier: it locks a group with an advisory lock, and marks its notices as reported in the same
transaction that writes the notifications.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg
import structlog

from onceward.background import Loop
from onceward.db import Database, Transaction
from onceward.errors import OncewardError
from onceward.messages.notifications import Notification, SlackChannels, notify
from onceward.messages.recipient import ChannelName, Recipient
from onceward.messages.templates import Templates
from onceward.statements import read_statement
from onceward.work import Waker

log = structlog.get_logger(__name__)

DUE = read_statement("messages", "due_groups")

MARK_REPORTED = read_statement("messages", "mark_reported")
OWNERS = read_statement("messages", "owner_emails")
WORST = read_statement("messages", "worst_notice")
LINES = read_statement("messages", "list_report_lines")

HINTS = {
    "DEAD_LETTER": "onceward dead-letters ls",
    "WEBHOOK_DEAD_LETTER": "onceward dead-letters ls --kind event",
    "CRON_FAILURE": "onceward cron ls",
    "MESSAGE_ACCOUNT": "onceward messages parked",
}
MOST_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Audiences:
    """The mail addresses of each audience. An audience without addresses falls back to the administrators."""

    admin: Sequence[str] = field(default=(), repr=False)
    fraud: Sequence[str] = field(default=(), repr=False)
    accounting: Sequence[str] = field(default=(), repr=False)
    security: Sequence[str] = field(default=(), repr=False)

    def of(self, name: str) -> Sequence[str]:
        return getattr(self, name) or self.admin


@dataclass(frozen=True, slots=True)
class Group:
    """Notices that share a message: of the installation, of one organization (`reader`), or of organizations without
    owners."""

    key: str
    of_organization: bool
    reader: UUID | None


SlackOf = Callable[[UUID], Awaitable[SlackChannels]]
"""Returns the Slack of an organization, without a channel if it has none of its own."""


class Notifier:
    """Reports notices. The loop calls `step` every few seconds."""

    def __init__(
        self,
        db: Database,
        templates: Templates,
        *,
        audiences: Audiences,
        slack: SlackChannels,
        slack_of: SlackOf | None = None,
        waker: Waker | None = None,
        gather_s: float = 5.0,
        quiet_s: float = 900.0,
        every_s: float = 5.0,
    ) -> None:
        self._db = db
        self._templates = templates
        self._audiences = audiences
        self._slack = slack
        self._slack_of = slack_of
        self._waker = waker
        self._gather_s = gather_s
        self._quiet_s = quiet_s
        self._loop = Loop("notices", self.step, every_s=every_s)

    async def start(self) -> None:
        await self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    async def step(self) -> int:
        """Report every group of notices that is due; return the number of groups reported."""
        rows = await self._db.fetch(DUE, self._gather_s, self._quiet_s)
        reported = 0
        for row in rows:
            group = Group(row["group_key"], row["of_organization"], row["reader"])
            slack = await self._slack_for(group)
            async with self._db.transaction(role="engine", organization=group.reader) as tx:
                reported += await self._report(tx, group, slack)
        return reported

    async def _slack_for(self, group: Group) -> SlackChannels:
        if not group.of_organization:
            return self._slack
        if group.reader is None or self._slack_of is None:
            return SlackChannels()
        try:
            return await self._slack_of(group.reader)
        except (
            OncewardError
        ) as error:  # a secret that cannot be read, for example: the other channels still get the notice
            log.warning("notices.slack_unusable", organization=group.reader, error=type(error).__name__)
            return SlackChannels()

    async def _report(self, tx: Transaction, group: Group, slack: SlackChannels) -> int:
        if not await tx.fetchval(
            "select pg_try_advisory_xact_lock(hashtextextended('onceward notices ' || $1, 0))", group.key
        ):
            return 0
        id: int = await tx.fetchval("select nextval('onceward.ids')")
        await tx.execute(MARK_REPORTED, group.key, id, group.of_organization, group.reader)
        worst = await tx.fetchrow(WORST, group.key, id)
        if worst is None:
            return 0
        people = list(self._audiences.of(worst["audience"]))
        if group.reader is not None:
            people = [row["email"] for row in await tx.fetch(OWNERS, group.reader)]
        content = summary(worst, await tx.fetch(LINES, group.key, id, MOST_LINES))
        for channel, recipients in _recipients_by_channel(worst, people, slack):
            each = Notification(
                type=worst["type"],
                severity=worst["severity"],
                title=worst["title"],
                template="admin-notice",
                metadata=content,
                recipients=recipients,
                channels=[channel],
                key=f"notice:{id}:{channel}",
            )
            await notify(tx, self._templates, each, slack=slack, waker=self._waker)
        log.info("notices.reported", group=group.key, organization=group.reader, notices=worst["total"])
        return 1


def _recipients_by_channel(
    notice: asyncpg.Record, people: Sequence[str], slack: SlackChannels
) -> list[tuple[ChannelName, list[str | Recipient]]]:
    """Return the channels of a notice that have an address, each with its recipients.

    The default channels are email, slack and dashboard.
    """
    requested: list[ChannelName] = notice["channels"] or ["email", "slack", "dashboard"]
    result: list[tuple[ChannelName, list[str | Recipient]]] = []
    for channel in requested:
        match channel:
            case "email":
                if people:
                    result.append((channel, list(people)))
            case "slack":
                if slack.of(notice["type"]) is not None:
                    result.append((channel, []))
            case _:
                result.append((channel, [Recipient(ref="admins")]))
    return result


def summary(worst: asyncpg.Record, lines: Sequence[asyncpg.Record]) -> dict[str, Any]:
    """Return the content of the message: one notice in full, several notices counted by title and reason."""
    total: int = worst["total"]
    if total == 1:
        shown = [f"{name}: {value}" for name, value in worst["details"].items() if value is not None] or [
            worst["title"]
        ]
    else:
        shown = [f"{_line(row)}: {row['number']}" for row in lines]
    return {
        "count": total,
        "first_at": worst["first_at"].isoformat(),
        "lines": shown,
        "left_out": max(0, total - sum(row["number"] for row in lines)),
        "hint": HINTS.get(worst["type"]),
    }


def _line(row: asyncpg.Record) -> str:
    return f"{row['title']} ({row['reason']})" if row["reason"] else str(row["title"])
