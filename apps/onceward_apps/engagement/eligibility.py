"""Who gets what, and why. The runs, the dry run and the page of a user share these decisions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from onceward_apps.engagement.app import EngagementSettings, settings
from onceward_apps.engagement.model import REVIEWED, held_out
from onceward_apps.engagement.store import candidates, pauses, views
from onceward_apps.engagement.store.views import Reader

Row = Any
Action = Literal["goodbye", "goodbye held out", "weekly_review", "dormant", "back to active", "nothing"]
MOST_READ = 10_000
"""The number of candidates that a dry run reads before it says that there are more."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a run does with a user, and why."""

    action: Action
    why: str

    @property
    def skips(self) -> bool:
        return self.action == "nothing"


PAUSED = Decision("nothing", "the campaign is paused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewed:
    """What a run would do with one user now."""

    user_id: UUID
    check_type: str
    action: Action
    why: str


def goodbye(row: Row, now: datetime, configured: EngagementSettings, *, paused: bool = False) -> Decision:
    """Decide about an active user without activity for 14 days."""
    if paused:
        return PAUSED
    if row["reengagement_opt_out"]:
        return Decision("nothing", "opted out")
    if row["whatsapp_jid"] is None:
        return Decision("nothing", "no WhatsApp number")
    days = f"no activity for {(now - row['at']).days} days"
    if held_out(row["user_id"], configured.holdout_percent):
        return Decision("goodbye held out", f"{days}; in the holdout group")
    return Decision("goodbye", days)


def ending(row: Row, why: str) -> Decision:
    """Decide about a user whose waiting is over. Nobody gets a message for that."""
    return Decision("nothing", "opted out") if row["reengagement_opt_out"] else Decision("dormant", why)


def review(row: Row, *, paused: bool = False) -> Decision:
    """Decide about a user with activity in the last seven days."""
    if paused:
        return PAUSED
    if row["reengagement_opt_out"]:
        return Decision("nothing", "opted out")
    if row["whatsapp_jid"] is None:
        return Decision("nothing", "no WhatsApp number")
    count = row["transaction_count"]
    if count:
        return Decision("weekly_review", f"{count} transaction{'' if count == 1 else 's'} in 7 days")
    return Decision("weekly_review", "activity in 7 days")


async def preview(reader: Reader, organization: UUID, job: Literal["daily", "weekly"]) -> AsyncGenerator[Previewed]:
    """Yield what the run would do now for this organization. Reads only; at most `MOST_READ` users of each check."""
    now = await views.now(reader)
    configured = settings()
    paused = await pauses.pauses(reader, organization)
    if job == "weekly":
        checks = [
            (
                "weekly_review",
                candidates.reviewed(reader.fetch, organization, size=1000),
                lambda row: review(row, paused="weekly_review" in paused),
            )
        ]
    else:
        period = configured.inactivity
        hours = f"no answer to the goodbye for {configured.goodbye_hours:g} hours"
        checks = [
            (
                "goodbye_given_up",
                candidates.given_up(reader.fetch, organization, size=1000),
                lambda row: Decision("back to active", f"goodbye not sent: {row['reason']}"),
            ),
            (
                "inactivity_14d",
                candidates.inactive(reader.fetch, organization, period=period, size=1000),
                lambda row: goodbye(row, now, configured, paused="goodbye" in paused),
            ),
            (
                "goodbye_timeout",
                candidates.expired(reader.fetch, organization, size=1000),
                lambda row: ending(row, hours),
            ),
            (
                "reminder_due",
                candidates.reminders(reader.fetch, organization, size=1000),
                lambda row: ending(row, f"answered later {configured.remind_days:g} days ago"),
            ),
        ]
    given_up: set[UUID] = set()
    for check_type, rows, decide in checks:
        read = 0
        async for row in rows:
            if row["user_id"] in given_up:
                continue  # the first check makes the user active again, so the others do not find it
            decision = decide(row)
            if decision.action == "back to active":
                given_up.add(row["user_id"])
            yield Previewed(user_id=row["user_id"], check_type=check_type, action=decision.action, why=decision.why)
            read += 1
            if read == MOST_READ:
                break


def explain(row: Row, now: datetime, configured: EngagementSettings) -> list[str]:
    """Say in sentences which messages a user gets next, and what prevents others."""
    due = row["last_activity_at"] + configured.inactivity
    reasons: list[str] = []
    if row["reengagement_opt_out"]:
        reasons.append("The user has opted out and gets no message.")
    if not row["has_number"]:
        reasons.append("There is no WhatsApp number, so no message can be sent.")
    match row["state"]:
        case "active" if reasons:
            pass  # the user gets no goodbye, whenever it would be due
        case "active" if row["unreachable_at"] is not None:
            reasons.append("Unreachable: no goodbye until there is new activity or a new number.")
        case "active" if row["goodbye_retry_at"] is not None and row["goodbye_retry_at"] > now:
            reasons.append(
                f"The last goodbye could not be sent; the next try is after "
                f"{row['goodbye_retry_at']:%Y-%m-%d %H:%M} UTC."
            )
        case "active" if due > now:
            reasons.append(f"Without activity the goodbye is due at {due:%Y-%m-%d %H:%M} UTC.")
        case "active":
            reasons.append("The goodbye is due with the next daily run.")
        case "goodbye_sent" | "remind_later" if row["reengagement_opt_out"]:
            reasons.append("The runs skip the user: the state stays as it is until there is activity.")
        case "goodbye_sent":
            reasons.append(f"Without an answer the user is dormant at {row['goodbye_expires_at']:%Y-%m-%d %H:%M} UTC.")
        case "remind_later":
            reasons.append(
                f"The user answered later: dormant at {row['remind_at']:%Y-%m-%d %H:%M} UTC, without a message."
            )
        case "dormant":
            reasons.append("Dormant users get no messages. Any activity makes the user active again.")
        case _:
            reasons.append("The user asked for help. The next activity makes the user active again.")
    if held_out(row["user_id"], configured.holdout_percent):
        reasons.append("The user is in the holdout group and gets no goodbye.")
    if row["state"] in REVIEWED and not row["reengagement_opt_out"] and row["has_number"]:
        recent = row["last_activity_at"] > now - timedelta(days=7)
        reasons.append(
            "The next weekly review includes the user." if recent else "No activity in 7 days: no weekly review."
        )
    return reasons
