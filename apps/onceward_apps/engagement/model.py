"""The rules of engagement, as pure functions: states, replies, keys, destinations.

                        inactivity_14d                goodbye_timeout
            active ───────────────────▶ goodbye_sent ─────────────────▶ dormant
              ▲  ▲ ◀────────────────────┤ given_up                       ▲ ▲
              │  │                      ├ reply_help ──▶ help_flow       │ │
              │  │                      └ reply_later ─▶ remind_later ───┘ │
              │  └─ activity, from every state           reminder_due      │
              └──── (an unknown reply is activity)       reply_stop, from every state

A trigger that the table does not list for a state changes nothing. `help` and `later` act only in `goodbye_sent`.
`stop` also opts the user out; activity makes an opted-out user active again, who stays opted out.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args
from uuid import UUID

from onceward.messages import Reply

State = Literal["active", "goodbye_sent", "remind_later", "dormant", "help_flow"]
STATES: tuple[State, ...] = get_args(State)

Trigger = Literal[
    "inactivity_14d",
    "goodbye_timeout",
    "reminder_due",
    "goodbye_given_up",
    "activity",
    "reply_help",
    "reply_later",
    "reply_stop",
]
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)

Destination = Literal["individual", "group"]
MessageType = Literal["goodbye", "weekly_review", "reminder", "help_restart"]
"""`reminder` and `help_restart` are reserved: no such message is ever sent. Silence is the design."""

Campaign = Literal["goodbye", "weekly_review"]
"""What an organization can pause: the goodbyes of the daily run, or the reviews of the weekly run."""
CAMPAIGNS: tuple[Campaign, ...] = get_args(Campaign)

GOODBYE = "engagement.goodbye.self_select"
WEEKLY_REVIEW = "engagement.weekly_review"
WEEKLY_VISIT = "engagement.weekly_visit"
"""The weekly review of a user without transactions: a text that an approved template can have has no conditions."""
TEMPLATES: dict[MessageType, str] = {"goodbye": GOODBYE, "weekly_review": WEEKLY_REVIEW}

CAMPAIGN_TEMPLATES: dict[Campaign, tuple[str, ...]] = {
    "goodbye": (GOODBYE,),
    "weekly_review": (WEEKLY_REVIEW, WEEKLY_VISIT),
}

LIFETIME: dict[MessageType, timedelta] = {"goodbye": timedelta(days=2), "weekly_review": timedelta(days=3)}
"""How long after it is due a message is still worth sending."""

REVIEWED: tuple[State, ...] = ("active", "help_flow")
"""The states in which a user gets a weekly review."""

_NEXT: dict[tuple[State, Trigger], State] = {
    ("active", "inactivity_14d"): "goodbye_sent",
    ("goodbye_sent", "goodbye_timeout"): "dormant",
    ("remind_later", "reminder_due"): "dormant",
    ("goodbye_sent", "goodbye_given_up"): "active",
    ("goodbye_sent", "reply_help"): "help_flow",
    ("goodbye_sent", "reply_later"): "remind_later",
    **{(state, "activity"): "active" for state in STATES if state != "active"},
    **{(state, "reply_stop"): "dormant" for state in STATES if state != "dormant"},
}


def transition(state: State, trigger: Trigger) -> State | None:
    """Return the next state, or None if the trigger changes nothing in this state."""
    return _NEXT.get((state, trigger))


def sources(trigger: Trigger) -> list[State]:
    """Return the states in which the trigger has an effect."""
    return [state for state in STATES if (state, trigger) in _NEXT]


# -- replies ---------------------------------------------------------------------------------------------------------

ANSWERS: tuple[Reply, ...] = ("help", "later", "stop", "start")
"""What a user may answer. Any other text counts as activity."""


def reply_trigger(state: State, reply: Reply | None) -> Trigger | None:
    """Return the trigger of a reply in this state, or None if the reply repeats what the user has said before."""
    match reply:
        case "stop":
            return "reply_stop"
        case "help" if state == "goodbye_sent":
            return "reply_help"
        case "later" if state == "goodbye_sent":
            return "reply_later"
        case "help" if state == "help_flow":
            return None
        case "later" if state == "remind_later":
            return None
        case _:
            return "activity"


# -- keys ------------------------------------------------------------------------------------------------------------


def goodbye_key(user_id: UUID, at: datetime) -> str:
    """Return `{user}:goodbye_sent:{YYYY-MM-DD}`, with the day in UTC."""
    return f"{user_id}:goodbye_sent:{at.astimezone(UTC):%Y-%m-%d}"


def weekly_key(user_id: UUID, at: datetime) -> str:
    """Return `{user}:weekly_review:{YYYY-Www}`, with the ISO week in UTC."""
    return f"{user_id}:weekly_review:{iso_week(at)}"


def iso_week(at: datetime) -> str:
    year, week, _ = at.astimezone(UTC).isocalendar()
    return f"{year:04}-W{week:02}"


# -- holdout ---------------------------------------------------------------------------------------------------------


def held_out(user_id: UUID, percent: int) -> bool:
    """Return whether the user belongs to the group without goodbyes. The same user always gets the same answer."""
    number = int.from_bytes(hashlib.sha256(b"engagement holdout" + user_id.bytes).digest()[:8])
    return number % 10_000 < percent * 100


# -- destinations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Routed:
    """Where a message goes, and where the user wanted it, if that is not possible."""

    destination: Destination
    instead_of: Destination | None = None


def route(preferred: str, *, groups: bool = False) -> Routed:
    """Return the destination. WhatsApp's Cloud API has no groups, so a group falls back to the person."""
    if preferred == "group" and not groups:
        return Routed("individual", instead_of="group")
    return Routed("group" if preferred == "group" else "individual")
