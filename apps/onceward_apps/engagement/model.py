"""The rules of engagement, as pure functions: states, replies, keys, destinations.

                        inactivity_14d                goodbye_timeout
            active ───────────────────▶ goodbye_sent ─────────────────▶ dormant
              ▲  ▲ ◀────────────────────┤ given_up                       ▲ ▲
              │  │                      ├ reply_help ──▶ help_flow       │ │
              │  │                      └ reply_later ─▶ remind_later ───┘ │
              │  └─ activity, from every state           reminder_due      │
              └──── (an unknown reply is activity)       reply_stop, from every state

A trigger that the table does not list for a state changes nothing. `help` and `later` act only in `goodbye_sent`. `stop` also
opts the user out; activity makes an opted-out user active again, who stays opted out.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, get_args
from uuid import UUID

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

Reply = Literal["help", "later", "stop"]
Destination = Literal["individual", "group"]
MessageType = Literal["goodbye", "weekly_review", "reminder", "help_restart"]
"""`reminder` and `help_restart` are reserved: no such message is ever sent. Silence is the design."""

GOODBYE = "engagement.goodbye.self_select"
WEEKLY_REVIEW = "engagement.weekly_review"
TEMPLATES: dict[MessageType, str] = {"goodbye": GOODBYE, "weekly_review": WEEKLY_REVIEW}

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

WORDS: dict[str, Reply] = {
    "help": "help",
    "ajuda": "help",
    "preciso de ajuda": "help",
    "later": "later",
    "depois": "later",
    "mais tarde": "later",
    "stop": "stop",
    "parar": "stop",
    "pare": "stop",
    "sair": "stop",
}
"""Button ids and exact words. Case, accents and punctuation at the ends are ignored."""


def read_reply(text: str) -> Reply | None:
    """Return what a reply asks for. Any other text is None and counts as activity."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return WORDS.get(" ".join(plain.split()).strip(" .!?"))


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


class BadNumber(ValueError):
    """The text is not a WhatsApp number of a person."""


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


def normalize_number(text: str) -> str:
    """Return the number as `+` and digits. Accepts a JID (`5511987654321@s.whatsapp.net`) and usual punctuation."""
    local, _, server = text.strip().partition("@")
    if server == "g.us":
        raise BadNumber("whatsapp_jid names a group: give the number of the person")
    digits = re.sub(r"[\s().+-]", "", local.partition(":")[0])
    if not (digits.isascii() and digits.isdigit() and 7 <= len(digits) <= 15) or digits.startswith("0"):
        raise BadNumber("whatsapp_jid must be a number in international form, such as +5511987654321")
    return f"+{digits}"


def spellings(number: str) -> list[str]:
    """Return the forms under which WhatsApp may report a number: it omits the ninth digit of some Brazilian numbers."""
    same = re.fullmatch(r"\+55(\d\d)(9?)(\d{8})", number)
    if same is None:
        return [number]
    area, _, rest = same.groups()
    return [f"+55{area}9{rest}", f"+55{area}{rest}"]
