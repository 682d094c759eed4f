"""Personal data of engagement: the number of a user, and everything under the user's id."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from onceward.db import Transaction
from onceward.trust import Eraser, Found, Person


async def forget_users(tx: Transaction, _person: Person, found: Sequence[Found], _organization: UUID | None) -> None:
    """Delete the users with their states, transactions, transitions and errors."""
    rows = [each.row for each in found]
    for table in ("transitions", "job_errors"):
        await tx.execute(
            f"delete from engagement.{table} x using engagement.user_profiles t"
            " where t.ctid = any($1::text[]::tid[]) and x.organization_id = t.organization_id and x.user_id = t.user_id",
            rows,
        )
    await tx.execute("delete from engagement.user_profiles t where t.ctid = any($1::text[]::tid[])", rows)


ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="errors of engagement runs",
        table="engagement.job_errors",
        columns={"error": "text", "user_id": "whole"},
        delete=True,
    ),
    Eraser(
        name="engagement transitions",
        table="engagement.transitions",
        columns={"user_id": "whole"},
        delete=True,
    ),
    # After the others, because it also deletes their rows: a person may be known by number only.
    Eraser(
        name="engagement users",
        table="engagement.user_profiles",
        columns={"user_id": "whole", "whatsapp_jid": "whole"},
        erase=forget_users,
        names=("user_id", "whatsapp_jid"),
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
    "engagement.job_runs.*": "counts",
    "engagement.job_errors.check_type": "a closed set",
}
