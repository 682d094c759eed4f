"""Accounts and templates that a service refuses: expired token, missing payment, paused template, locked account.

The messages wait, the administrators of the account's owner get one notice with what to do, and one message at a time
probes whether the account works again. A changed secret of the organization, `onceward messages resume`, or the start
of a process makes the next probe due at once. A service may also report a template that it pauses or approves again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog

from onceward.db import Database, Transaction
from onceward.messages import metrics
from onceward.messages.errors import MessageParked, Resting
from onceward.messages.lines import Line, own_secrets, queues_of
from onceward.messages.parked_lines import park_line, resume_line
from onceward.messages.recipient import CHANNELS
from onceward.services.outcome import Refused
from onceward.statements import named, read_statement

log = structlog.get_logger(__name__)

FIRST_PROBE_S = 60.0
LONGEST_PROBE_S = 900.0
MOST_PAUSE_S = 30.0
NOTICE = "MESSAGE_ACCOUNT"
PROBES = 4
"""How many messages are released for a probe, which one takes. Another one may be cancelled or expired meanwhile."""

ADD = named(read_statement("messages", "add_trouble"))
TAKE_PROBE = read_statement("messages", "take_probe")
REPAIRED = read_statement("messages", "repaired_troubles")
RELEASE = read_statement("messages", "release_refused")
TEMPLATE_DUE = read_statement("messages", "probe_template")
WAKE = "select onceward.wake_idle_workers($1)"
NOTIFY = "select onceward.notify($1, $2, $3, $4, null, $5, $6)"
RESOLVE = "delete from onceward.account_troubles where id = $1 returning organization_id, channel, template, language"
DUE_NOW = """
update onceward.account_troubles set probe_at = clock_timestamp(), checked_at = clock_timestamp()
 where id = $1 returning organization_id, channel, template, language
"""
LIST = read_statement("messages", "list_troubles")


@dataclass(frozen=True, slots=True)
class TemplateText:
    """A template in one language, as the name of its file says.

    Services approve, pause and refuse each language by itself.
    """

    template: str
    language: str

    def __str__(self) -> str:
        return f"{self.template} ({self.language})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A refused account or template, as a message found it when it was loaded."""

    id: int
    text: TemplateText | None
    wait_s: float


def troubles_of(found: list[Mapping[str, Any]] | None, line: Line, text: TemplateText) -> list[Trouble]:
    """Return those that concern the account of this line, or this template in this language."""
    return [
        Trouble(id=each["id"], text=_text(each), wait_s=each["wait_s"])
        for each in found or ()
        if each["owned"] is (line.owner is not None) and _text(each) in (None, text)
    ]


def _text(row: Mapping[str, Any]) -> TemplateText | None:
    return None if row["template"] is None else TemplateText(row["template"], row["language"])


class Troubles:
    """Records what services refuse, and lets one message at a time try again."""

    def __init__(self, db: Database, *, first_probe_s: float = FIRST_PROBE_S) -> None:
        self._db = db
        self._first_probe_s = first_probe_s

    async def report(self, line: Line, text: TemplateText | None, refusal: Refused) -> MessageParked:
        """Park the account, or with `refusal.template` the template. Return what the message that found it raises."""
        concerned = text if refusal.template else None
        async with self._db.transaction(role="engine", organization=line.owner) as tx:
            row = await _add(tx, line, concerned, refusal, first_s=self._first_probe_s)
            wait_s: float = max(row["wait_s"], 0.1)
            if concerned is None:
                await park_line(tx, line, refusal.reason, for_s=wait_s)
            if row["is_new"]:
                await _tell(tx, line, concerned, refusal)
        if row["is_new"]:
            metrics.TROUBLES.labels(line.channel, "account" if concerned is None else "template").inc()
            log.error(
                "account.refused",
                channel=line.channel,
                owner=line.owner and str(line.owner),
                template=None if concerned is None else str(concerned),
                reason=refusal.reason,
                advice=refusal.advice,
            )
        return MessageParked(self._pause_s(concerned, wait_s), _reason(concerned, refusal.reason), trouble=row["id"])

    async def wait_for_probe(self, troubles: list[Trouble]) -> None:
        """Raise `Resting` unless this message may probe every trouble that it meets."""
        for each in troubles:
            taken = each.wait_s <= 0 and await self._db.fetchval(
                TAKE_PROBE, each.id, self._first_probe_s, LONGEST_PROBE_S
            )
            if not taken and await self._db.fetchval(
                "select true from onceward.account_troubles where id = $1", each.id
            ):
                wait_s = max(each.wait_s, self._first_probe_s)
                raise Resting(
                    self._pause_s(each.text, wait_s),
                    _reason(each.text, "an operator must repair it"),
                    trouble=each.id,
                )

    async def resolve(self, troubles: list[Trouble]) -> None:
        """The service has accepted the account again: let everything that waits run at once.

        Deleting the trouble waits for messages that are being put back to wait for it (`onceward.settled_message`).
        """
        for each in troubles:
            async with self._db.transaction(role="engine") as tx:
                if (row := await tx.fetchrow(RESOLVE, each.id)) is not None:
                    await _resume(tx, row, most=None)
                    log.info(
                        "account.accepted", channel=row["channel"], template=row["template"], language=row["language"]
                    )

    async def step(self) -> None:
        """Make the next probe due at once for accounts whose organization has changed a secret since the refusal."""
        names = [(name, channel) for channel in CHANNELS for name in own_secrets(channel)]
        rows = await self._db.fetch(REPAIRED, [name for name, _ in names], [channel for _, channel in names])
        for row in rows:
            await self.probe_now(row["id"])

    async def probe_now(self, id: int) -> bool:
        """Let one message try again at once. Return False if the trouble has ended."""
        async with self._db.transaction(role="engine") as tx:
            row = await tx.fetchrow(DUE_NOW, id)
            if row is not None:
                await _resume(tx, row, most=PROBES)
        return row is not None

    async def probe_installation(self) -> None:
        """Let one message try again: this process may have been started with other settings."""
        for row in await list_troubles(self._db, owner=None):
            await self.probe_now(row["id"])

    def _pause_s(self, text: TemplateText | None, wait_s: float) -> float:
        # Messages of a parked account are not claimed before its probe, so they need not wait as long.
        return wait_s if text is not None else min(wait_s, MOST_PAUSE_S) + random.uniform(0, 0.5)


async def list_troubles(
    db: Database, *, channel: str | None = None, owner: UUID | str | None = "all"
) -> list[dict[str, Any]]:
    """Return what services refuse, oldest first; `owner` limits it to one organization, or with None to the
    installation."""
    owned = None if isinstance(owner, str) else owner
    return [dict(row) for row in await db.fetch(LIST, channel, owner != "all", owned)]


async def change_template(tx: Transaction, line: Line, text: TemplateText, refusal: Refused | None) -> None:
    """Let the messages of a template in one language wait, as its service reports, or with None let one of them try
    again.

    The caller tells the administrators. If no message waits, nothing is left to try: the trouble has ended.
    """
    if refusal is not None:
        await _add(tx, line, text, refusal, first_s=FIRST_PROBE_S)
        return
    row = await tx.fetchrow(TEMPLATE_DUE, line.channel, line.owner, text.template, text.language)
    if row is not None and await _release(tx, row, most=PROBES) == 0:
        await tx.execute(RESOLVE, row["id"])


async def _add(tx: Transaction, line: Line, text: TemplateText | None, refusal: Refused, *, first_s: float) -> Any:
    return await tx.fetchrow(
        ADD.text,
        *ADD.values(
            owner=line.owner,
            channel=line.channel,
            template=None if text is None else text.template,
            language=None if text is None else text.language,
            reason=refusal.reason[:200],
            advice=refusal.advice,
            first_s=first_s,
            longest_s=LONGEST_PROBE_S,
        ),
    )


async def _tell(tx: Transaction, line: Line, text: TemplateText | None, refusal: Refused) -> None:
    what = f"template {text}" if text is not None else "account"
    title = f"{line.channel}: the service refuses the {what}; its messages wait"
    details = {
        "reason": refusal.reason,
        "what to do": refusal.advice,
        "then": f"onceward messages resume {line.channel}" + (f" --organization {line.owner}" if line.owner else ""),
    }
    group = f"{NOTICE}:{line.channel}:{line.owner or ''}:{text or ''}"
    await tx.fetchval(NOTIFY, NOTICE, "error", title, details, "admin", group)


async def _resume(tx: Transaction, row: Any, *, most: int | None) -> None:
    if row["template"] is None:
        await resume_line(tx, Line(row["channel"], row["organization_id"]))
    await _release(tx, row, most=most)


async def _release(tx: Transaction, row: Any, *, most: int | None) -> int:
    """Let the messages that wait for an account or template run at the commit, at most `most`. Return how many."""
    waits = _reason(_text(row), "")
    released = await tx.fetch(RELEASE, queues_of(row["channel"]), row["organization_id"], row["template"], waits, most)
    for queue in queues_of(row["channel"]):
        await tx.execute(WAKE, queue)
    return len(released)


def _reason(text: TemplateText | None, why: str) -> str:
    if text is None:
        return f"the account is refused: {why}"
    return f"the template is refused in {text.language}: {why}"
