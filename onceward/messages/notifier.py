"""Turn notices into notifications. The first of a group goes out within seconds; those that follow share one message.

Any node may run the notifier: it locks a group with an advisory lock, and marks its notices as reported in the same
transaction that writes the notifications.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import structlog

from onceward.background import Loop
from onceward.db import Database, Transaction
from onceward.messages.notifications import Notification, SlackChannels, notify
from onceward.messages.recipient import ChannelName, Recipient
from onceward.messages.templates import Templates
from onceward.statements import read_statement
from onceward.work import Waker

log = structlog.get_logger(__name__)

DUE = read_statement("messages", "due_groups")

MARK_REPORTED = """
update onceward.notices set told_at = onceward.now(), told_in = $2 where group_key = $1 and told_at is null
"""

OWNERS = """
select u.email from onceward.memberships m join onceward.users u using (user_id)
 where m.organization_id = $1 and m.role = 'owner' and u.disabled_at is null order by u.email limit 20
"""
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


class Notifier:
    """Reports notices. The loop calls `step` every few seconds."""

    def __init__(
        self,
        db: Database,
        templates: Templates,
        *,
        audiences: Audiences,
        slack: SlackChannels,
        waker: Waker | None = None,
        gather_s: float = 5.0,
        quiet_s: float = 900.0,
        every_s: float = 5.0,
    ) -> None:
        self._db = db
        self._templates = templates
        self._audiences = audiences
        self._slack = slack
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
            async with self._db.transaction(role="engine") as tx:
                reported += await self._report(tx, row["group_key"])
        return reported

    async def _report(self, tx: Transaction, group: str) -> int:
        if not await tx.fetchval(
            "select pg_try_advisory_xact_lock(hashtextextended('onceward notices ' || $1, 0))", group
        ):
            return 0
        id: int = await tx.fetchval("select nextval('onceward.ids')")
        await tx.execute(MARK_REPORTED, group, id)
        worst = await tx.fetchrow(WORST, group, id)
        if worst is None:
            return 0
        content = summary(worst, await tx.fetch(LINES, group, id, MOST_LINES))
        if worst["audience"] == "owner":
            await self._tell_owner(tx, worst, content, id)
            return 1
        for channel, recipients in self._recipients_by_channel(worst):
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
            await notify(tx, self._templates, each, slack=self._slack, waker=self._waker)
        log.info("notices.reported", group=group, notices=worst["total"])
        return 1

    async def _tell_owner(self, tx: Transaction, worst: asyncpg.Record, content: dict[str, Any], id: int) -> None:
        """Tell the owners of an organization, by mail of the installation and on the dashboard of the organization."""
        owners = [row["email"] for row in await tx.fetch(OWNERS, worst["organization_id"])]
        to: list[tuple[ChannelName, list[str | Recipient]]] = [("dashboard", [Recipient(ref="admins")])]
        if owners:
            to.insert(0, ("email", list(owners)))
        for channel, recipients in to:
            if channel == "dashboard":
                await tx.execute("select set_config('onceward.organization', $1, true)", str(worst["organization_id"]))
                tx.organization = worst["organization_id"]
            told = Notification(
                type=worst["type"],
                severity=worst["severity"],
                title=worst["title"],
                template="admin-notice",
                metadata=content,
                recipients=recipients,
                channels=[channel],
                key=f"notice:{id}:{channel}",
            )
            await notify(tx, self._templates, told, slack=self._slack, waker=self._waker)
        log.info("notices.reported", group=worst["group_key"], notices=worst["total"], owners=len(owners))

    def _recipients_by_channel(self, notice: asyncpg.Record) -> list[tuple[ChannelName, list[str | Recipient]]]:
        """Return the channels of a notice that have an address, each with its recipients.

        The default channels are email, slack and dashboard.
        """
        requested: list[ChannelName] = notice["channels"] or ["email", "slack", "dashboard"]
        people = list(self._audiences.of(notice["audience"]))
        result: list[tuple[ChannelName, list[str | Recipient]]] = []
        for channel in requested:
            match channel:
                case "email":
                    if people:
                        result.append((channel, list(people)))
                case "slack":
                    if self._slack.of(notice["type"]) is not None:
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
