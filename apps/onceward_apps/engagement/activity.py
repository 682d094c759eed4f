"""What the outside tells about users: profiles, activity, transactions, opt-outs, replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid4

from onceward import Tx
from onceward.messages import BadNumber, Recipient, Reply, heard_from, opt_in, opt_out, read_number, save_recipient
from onceward_apps.engagement import transitions
from onceward_apps.engagement.app import HelpRequested, settings
from onceward_apps.engagement.errors import InvalidProfile, UnknownUser
from onceward_apps.engagement.model import Destination, reply_trigger
from onceward_apps.engagement.store import states, views

CATEGORY = "engagement"
"""The category of this app's templates: an opt-out stops everything of it, including what is queued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """A user did something at this time."""

    user_id: UUID
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transaction of a user. The same `id` twice is one transaction."""

    user_id: UUID
    created_at: datetime
    id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What became of a batch: how much was new, who became active by it, and which users nobody knows."""

    recorded: int
    became_active: tuple[UUID, ...]
    unknown: tuple[UUID, ...]


async def record_activity(tx: Tx, batch: Sequence[Activity]) -> Recorded:
    """Record activity of many users. From every state they are active at once, and their queued goodbye is
    cancelled."""
    users = [each.user_id for each in batch]
    moved, known = await states.activity(tx, users, [each.at for each in batch], settings().inactivity)
    await transitions.record(tx, "activity", moved)
    unknown = tuple(dict.fromkeys(user for user in users if user not in known))
    return Recorded(
        recorded=sum(user in known for user in users),
        became_active=tuple(each.user_id for each in moved),
        unknown=unknown,
    )


async def record_transactions(tx: Tx, batch: Sequence[Transaction]) -> Recorded:
    """Record transactions. A new transaction is activity; one that was recorded before changes nothing."""
    new = await states.add_transactions(
        tx,
        [each.id or uuid4() for each in batch],
        [each.user_id for each in batch],
        [each.created_at for each in batch],
    )
    became_active: tuple[UUID, ...] = ()
    if new:
        done = await record_activity(tx, [Activity(user_id=user, at=at) for user, at in new])
        became_active = done.became_active
    known = await states.known(tx, [each.user_id for each in batch])
    unknown = tuple(dict.fromkeys(each.user_id for each in batch if each.user_id not in known))
    return Recorded(recorded=len(new), became_active=became_active, unknown=unknown)


async def save_profile(
    tx: Tx,
    user_id: UUID,
    *,
    whatsapp_jid: str | None = None,
    locale: str | None = None,
    preferred_destination: Destination | None = None,
    reengagement_opt_out: bool | None = None,
    last_activity_at: datetime | None = None,
    actor: str | None = None,
) -> Mapping[str, Any]:
    """Create or change a user. Fields that are None keep their value; `last_activity_at` counts for a new user only."""
    try:
        number = None if whatsapp_jid is None else read_number(whatsapp_jid, international=True)
    except BadNumber as error:
        raise InvalidProfile(f"whatsapp_jid: {error}") from error
    row, is_changed = await states.save_profile(
        tx,
        user_id,
        whatsapp_jid=number,
        locale=locale,
        preferred_destination=preferred_destination,
        opt_out=reengagement_opt_out,
        last_activity_at=last_activity_at,
    )
    await save_recipient(
        tx,
        Recipient(ref=str(user_id), whatsapp=number, locale=locale),
        destination=preferred_destination,
    )
    if reengagement_opt_out is not None:
        await _tell_messages(tx, user_id, reengagement_opt_out, actor)
    if is_changed:
        await tx.audit("engagement_profile_saved", entity_type="EngagementUser", entity_id=user_id, actor=actor)
    return row


async def set_opt_out(tx: Tx, user_id: UUID, opted_out: bool, *, actor: str | None = None) -> bool:
    """Opt a user out or in again; return whether that changed anything. Messages that are queued are not sent."""
    if not await states.known(tx, [user_id]):
        raise UnknownUser(f"there is no user {user_id}")
    changed = bool(await states.set_opt_out(tx, [user_id], opted_out))
    await _tell_messages(tx, user_id, opted_out, actor)
    if changed:
        await tx.audit(
            "engagement_opted_out" if opted_out else "engagement_opted_in",
            entity_type="EngagementUser",
            entity_id=user_id,
            actor=actor,
        )
    return changed


async def _tell_messages(tx: Tx, user_id: UUID, opted_out: bool, actor: str | None) -> None:
    decide = opt_out if opted_out else opt_in
    source = "reply" if actor == "user" else "engagement"
    await decide(tx, str(user_id), category=CATEGORY, source=source, actor=None if actor == "user" else actor)


Answer = Literal["unknown_number", "help", "later", "stop", "activity", "repeated"]


async def record_reply(tx: Tx, numbers: Sequence[str], reply: Reply | None, *, at: datetime) -> Answer:
    """Apply what a person wrote. If several users have the number, it applies to all of them."""
    users = await views.by_number(tx, numbers)
    if not users:
        return "unknown_number"
    effects: set[Answer] = set()
    for user in users:
        await heard_from(tx, str(user["user_id"]), at=at)
        effects.add(await _apply_reply(tx, user["user_id"], user["state"], reply, at))
    for effect in ("stop", "help", "later", "activity"):
        if effect in effects:
            return effect
    return "repeated"


async def _apply_reply(tx: Tx, user_id: UUID, state: Any, reply: Reply | None, at: datetime) -> Answer:
    if reply == "start":
        await set_opt_out(tx, user_id, False, actor="user")
    trigger = reply_trigger(state, reply)
    match trigger:
        case None:
            return "repeated"
        case "activity":
            await record_activity(tx, [Activity(user_id=user_id, at=at)])
            return "activity"
        case "reply_stop":
            changed = await set_opt_out(tx, user_id, True, actor="user")
            moved = await transitions.transition_state(tx, user_id, trigger)
            return "stop" if changed or moved else "repeated"
        case "reply_help":
            await transitions.transition_state(tx, user_id, trigger)
            await _ask_the_team(tx, user_id)
            return "help"
        case _:
            await transitions.transition_state(tx, user_id, trigger)
            return "later"


async def _ask_the_team(tx: Tx, user_id: UUID) -> None:
    now = await tx.fetchval("select onceward.now()")
    assert tx.organization is not None
    await tx.publish(
        "engagement.help_requested",
        HelpRequested(user_id=user_id, organization_id=tx.organization, requested_at=now),
        key=f"engagement:help:{user_id}:{now.isoformat()}",
    )
    await tx.notify_admins(
        "engagement.help_requested", "info", "A user asks for help after a goodbye", {"user_id": str(user_id)}
    )
