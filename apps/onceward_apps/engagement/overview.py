"""What a person sees: the funnel with yesterday's moves, runs, returns, and the history of one user."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from onceward.schedules import upcoming
from onceward_apps.engagement.app import app, settings
from onceward_apps.engagement.daily import DAILY
from onceward_apps.engagement.eligibility import explain
from onceward_apps.engagement.errors import UnknownUser
from onceward_apps.engagement.model import STATES
from onceward_apps.engagement.store import views
from onceward_apps.engagement.store.views import Reader
from onceward_apps.engagement.weekly import WEEKLY

TRIGGER_TEXTS = {
    "inactivity_14d": "no activity for 14 days",
    "goodbye_timeout": "no answer to the goodbye",
    "reminder_due": "the time after `later` is over",
    "goodbye_given_up": "the goodbye could not be sent",
    "activity": "activity",
    "reply_help": "answered help",
    "reply_later": "answered later",
    "reply_stop": "answered stop",
}


async def overview(reader: Reader, organization: UUID | None) -> dict[str, Any]:
    """Return the users in each state, and how many moved in and out yesterday (UTC)."""
    now = await views.now(reader)
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    moves = await views.moves(reader, organization, since=today - timedelta(days=1), until=today)
    counts = await views.counts(reader, organization)
    total = sum(counts.get(state, 0) for state in STATES)
    funnel = [
        {
            "state": state,
            "users": (users := counts.get(state, 0)),
            "share": round(100 * users / total, 1) if total else 0.0,
            "moved_in": sum(move["users"] for move in moves if move["to_state"] == state),
            "moved_out": sum(move["users"] for move in moves if move["from_state"] == state),
        }
        for state in STATES
    ]
    return {
        "now": now,
        "total": total,
        "funnel": funnel,
        "moves": [{**dict(move), "why": TRIGGER_TEXTS.get(move["trigger"], move["trigger"])} for move in moves],
        "opted_out": counts.get("opted_out", 0),
        "unreachable": counts.get("unreachable", 0),
    }


def next_runs(now: datetime) -> list[dict[str, Any]]:
    """Return the next due time of each run."""
    return [{"job": name, "due_at": upcoming(app.schedules[name], now, 1)[0]} for name in (DAILY, WEEKLY)]


async def returned(reader: Reader, organization: UUID | None) -> list[dict[str, Any]]:
    """Return how many users came back within 14 days, with a goodbye and in the holdout group."""
    return [
        {
            "group": "holdout" if row["held_out"] else "goodbye",
            "users": row["users"],
            "returned": row["returned"],
            "share": round(100 * row["returned"] / row["users"], 1) if row["users"] else None,
        }
        for row in await views.returns(reader, organization)
    ]


async def user_history(reader: Reader, organization: UUID | None, user_id: UUID) -> dict[str, Any]:
    """Return one user with everything that happened, newest first, and what happens next. Raises `UnknownUser`."""
    row = await views.user(reader, organization, user_id)
    if row is None:
        raise UnknownUser(f"there is no user {user_id}")
    now = await views.now(reader)
    events = [
        *(_moved(each) for each in await views.user_transitions(reader, organization, user_id)),
        *(_queued(each) for each in await views.user_messages(reader, user_id)),
        *(
            {"id": each["id"], "at": each["at"], "what": "run failed", "text": f"{each['check_type']}: {each['error']}"}
            for each in await views.user_errors(reader, organization, user_id)
        ),
    ]
    return {
        "user": dict(row),
        "now": now,
        "explanation": explain(row, now, settings()),
        "history": sorted(events, key=lambda event: (event["at"], event["id"]), reverse=True),
    }


def _moved(row: Any) -> dict[str, Any]:
    why = TRIGGER_TEXTS.get(row["trigger"], row["trigger"])
    text = f"{row['from_state']} → {row['to_state']}: {why}"
    if row["held_out"]:
        text += "; no message, because the user is in the holdout group"
    return {"id": row["id"], "at": row["at"], "what": "state changed", "text": text, "caused_by": row["caused_by"]}


def _queued(row: Any) -> dict[str, Any]:
    transactions = (row["message_params"] or {}).get("transaction_count")
    reasons = {
        "goodbye": f"no activity for {(row['message_params'] or {}).get('days')} days",
        "weekly_review": f"{transactions} transactions in the week" if transactions else "activity in the week",
    }
    text = f"{row['message_type']} {row['status']}"
    if row["sent_at"] is not None:
        text += f" at {row['sent_at']:%Y-%m-%d %H:%M} UTC"
    if row["error_message"]:
        text += f" ({row['error_message']})"
    text += f": {reasons.get(row['message_type'], '')}"
    return {
        "id": row["id"],
        "at": row["created_at"],
        "what": "message",
        "text": text,
        "status": row["status"],
        "message_id": row["id"],
    }
