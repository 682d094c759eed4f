"""What trust itself holds about a person: their account, their sessions, and mentions in the audit log."""

from __future__ import annotations

from onceward.db import Transaction
from onceward.trust import audit
from onceward.trust.erase import IDS_PER_ENTRY, Eraser, Person, contains

MENTIONS = f"""
select id,
    {contains("coalesce(actor, '')", "$1")} or {contains("coalesce(user_id, '')", "$1")}
        or {contains("coalesce(entity_id, '')", "$1")} as who,
    {contains("coalesce(reason, '')", "$1")} or {contains("coalesce(changes::text, '')", "$2")}
        or {contains("coalesce(metadata::text, '')", "$2")} as content
from onceward.audit_log
where erased_at is null or who_salt is not null or content_salt is not null
"""

BLANK_WHO = """
update onceward.audit_log set actor = 'erased', user_id = null, entity_id = null, who_salt = null,
    erased_at = coalesce(erased_at, onceward.now())
where id = any($1)
"""

BLANK_CONTENT = """
update onceward.audit_log set reason = null, changes = null, metadata = null, content_salt = null,
    erased_at = coalesce(erased_at, onceward.now())
where id = any($1)
"""


async def erase_account(tx: Transaction, person: Person) -> int:
    """Close the account and forget name and address; its id stays, so that old entries still point somewhere."""
    rows = await tx.fetch(
        "update onceward.users set email = 'erased-' || user_id || '@invalid', name = '', admin = false,"
        " disabled_at = onceward.now() where lower(email) = lower($1) or user_id::text = lower($1) returning user_id",
        person.ref,
    )
    ids = [row["user_id"] for row in rows]
    for table in ("sessions", "login_links", "memberships"):
        await tx.execute(f"delete from onceward.{table} where user_id = any($1)", ids)
    return len(ids)


async def erase_mentions(tx: Transaction, person: Person) -> int:
    """Blank the parts of audit entries that name the person, and say in an entry which ones they were."""
    rows = await tx.fetch(f"select * from ({MENTIONS}) found where who or content order by id", person.ref, person.json)
    who = [row["id"] for row in rows if row["who"]]
    content = [row["id"] for row in rows if row["content"]]
    await tx.execute(BLANK_WHO, who)
    await tx.execute(BLANK_CONTENT, content)
    ids = [row["id"] for row in rows]
    for start in range(0, len(ids), IDS_PER_ENTRY):
        await audit.record(
            tx,
            "audit.erased",
            entity_type="person",
            entity_id=person.hash,
            metadata={"ids": ids[start : start + IDS_PER_ENTRY]},
            actor="system:erase",
        )
    return len(ids)


ERASERS: tuple[Eraser, ...] = (Eraser("accounts", erase_account), Eraser("audit entries", erase_mentions))
