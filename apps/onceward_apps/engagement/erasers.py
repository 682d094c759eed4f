"""Personal data of engagement: the number of a user, and everything under the user's id."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from onceward.db import Transaction
from onceward.trust import Eraser, Found, Person


async def forget_users(tx: Transaction, _person: Person, found: Sequence[Found], _organization: UUID | None) -> None:
    """Delete the users with their states, transactions, transitions and errors of runs."""
    rows = [each.row for each in found]
    await tx.execute(
        "delete from engagement.transitions x using engagement.user_profiles t"
        " where t.ctid = any($1::text[]::tid[]) and x.organization_id = t.organization_id and x.user_id = t.user_id",
        rows,
    )
    # Failed items only: an unfinished run does not need them.
    await tx.execute(
        "delete from onceward.run_items x using engagement.user_profiles t"
        " where t.ctid = any($1::text[]::tid[]) and x.organization_id = t.organization_id"
        " and x.key = t.organization_id || '/' || t.user_id and x.outcome = 'failed'",
        rows,
    )
    await tx.execute("delete from engagement.user_profiles t where t.ctid = any($1::text[]::tid[])", rows)


ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="who paused a campaign",
        table="engagement.pauses",
        columns={"paused_by": "text"},
        blank={"paused_by": "'erased'"},
    ),
    Eraser(
        name="engagement transitions",
        table="engagement.transitions",
        columns={"user_id": "whole"},
        delete=True,
        linked="t.user_id = any($5)",
        complete=True,
    ),
    # After the others, because it also deletes their rows: a person may be known by number only.
    Eraser(
        name="engagement users",
        table="engagement.user_profiles",
        columns={"user_id": "whole", "whatsapp_jid": "whole"},
        erase=forget_users,
        names=("user_id", "whatsapp_jid"),
        linked="t.user_id = any($5) or t.whatsapp_jid = any($2)",
        complete=True,
    ),
)

WITH_USER = "deleted with the user"

UNSEARCHED: dict[str, str] = {
    "engagement.user_profiles.locale": "a language",
    "engagement.user_engagement_states.*": WITH_USER,
    "engagement.state_counts.*": "counts",
    "engagement.transactions.*": WITH_USER,
    "engagement.transitions.from_state": "a closed set",
    "engagement.transitions.to_state": "a closed set",
    "engagement.transitions.trigger": "a closed set",
}
