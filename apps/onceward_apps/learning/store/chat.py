"""SQL of the chat of a cohort."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Query, Tx

NEWEST = """
select m.id, m.user_id::text as user_id, coalesce(u.name, m.author) as name, u.avatar, m.sent_at, m.edited_at,
       m.deleted_at is not null as deleted, m.removed, m.user_id is null as by_school,
       case when m.deleted_at is null then m.message else '' end as message,
       coalesce((select jsonb_object_agg(r.emoji, jsonb_build_object('count', r.number, 'mine', r.mine))
                   from (select emoji, count(*) as number, coalesce(bool_or(user_id = $4), false) as mine
                           from learning.chat_reactions where message_id = m.id group by emoji) r), '{}') as reactions
  from (select * from learning.chat_messages where cohort_id = $1 and ($3::bigint is null or id < $3)
         order by id desc limit $2) m
  left join learning.users u on u.id = m.user_id
 order by m.id
"""
# A student who joined later has not missed what was written before.
UNREAD = """
select count(*) from learning.chat_messages m
 where m.cohort_id = $1 and m.user_id is distinct from $2 and m.deleted_at is null
   and m.id > coalesce((select last_message_id from learning.chat_reads where cohort_id = $1 and user_id = $2), 0)
   and m.sent_at >= (select min(e.enrolled_at) from learning.enrollments e where e.cohort_id = $1 and e.user_id = $2
                        and e.status = 'ACTIVE')
"""
WRITER = """
select e.id, e.status, e.access_expires_at > onceward.now() as has_access, c.status as cohort_status
  from learning.enrollments e join learning.cohorts c on c.id = e.cohort_id
 where e.cohort_id = $1 and e.user_id = $2 and e.status = 'ACTIVE'
"""
ADD = """
insert into learning.chat_messages (cohort_id, user_id, message, client_key) values ($1, $2, $3, $4)
on conflict (cohort_id, user_id, client_key) do nothing returning id, sent_at
"""
READ = """
insert into learning.chat_reads as r (cohort_id, user_id, last_message_id)
select $1, $2, m.id from learning.chat_messages m where m.id = $3 and m.cohort_id = $1
on conflict (cohort_id, user_id) do update set last_message_id = excluded.last_message_id, read_at = onceward.now()
 where r.last_message_id < excluded.last_message_id
"""


async def newest(
    q: Query | Tx, cohort_id: UUID, limit: int, before: int | None = None, *, reader: UUID | None
) -> list[Any]:
    """Return the newest messages, the newest last. `mine` at a reaction says whether it is the reader's."""
    return await q.fetch(NEWEST, cohort_id, limit, before, reader)


async def other_emojis(tx: Tx, message_id: int, emoji: str) -> int:
    """Return how many different emoji but this one a message has."""
    return await tx.fetchval(
        "select count(distinct emoji) from learning.chat_reactions where message_id = $1 and emoji <> $2",
        message_id,
        emoji,
    )


async def unread(q: Query | Tx, cohort_id: UUID, user_id: UUID) -> int:
    return int(await q.fetchval(UNREAD, cohort_id, user_id) or 0)


async def writer(tx: Tx, cohort_id: UUID, user_id: UUID) -> Any:
    return await tx.fetchrow(WRITER, cohort_id, user_id)


async def add(tx: Tx, cohort_id: UUID, user_id: UUID, message: str, client_key: str | None) -> Any:
    """Add a message. Returns the first one if the browser's key was used before."""
    row = await tx.fetchrow(ADD, cohort_id, user_id, message, client_key)
    if row is not None:
        return row
    return await tx.fetchrow(
        "select id, sent_at from learning.chat_messages where cohort_id = $1 and user_id = $2 and client_key = $3",
        cohort_id,
        user_id,
        client_key,
    )


async def message(tx: Tx, message_id: int) -> Any:
    return await tx.fetchrow(
        "select id, cohort_id, user_id, sent_at, deleted_at from learning.chat_messages where id = $1 for update",
        message_id,
    )


async def edit(tx: Tx, message_id: int, text: str) -> None:
    await tx.execute(
        "update learning.chat_messages set message = $2, edited_at = onceward.now() where id = $1 and message <> $2",
        message_id,
        text,
    )


async def add_for_school(tx: Tx, cohort_id: UUID, author: str, message: str) -> int:
    return await tx.fetchval(
        "insert into learning.chat_messages (cohort_id, author, message) values ($1, $2, $3) returning id",
        cohort_id,
        author,
        message,
    )


async def was_written_now(tx: Tx, cohort_id: UUID, author: str, message: str) -> bool:
    """Return whether somebody of the school wrote the same within the last minute: a form that was sent twice."""
    return await tx.fetchval(
        "select exists (select from (select * from learning.chat_messages where cohort_id = $1"
        " order by id desc limit 50) m"
        " where m.author = $2 and m.message = $3 and m.sent_at > onceward.now() - interval '1 minute')",
        cohort_id,
        author,
        message,
    )


async def delete(tx: Tx, message_id: int, *, by_school: bool = False) -> None:
    await tx.execute(
        "update learning.chat_messages set message = '-', deleted_at = onceward.now(), removed = $2 where id = $1",
        message_id,
        by_school,
    )


async def react(tx: Tx, cohort_id: UUID, message_id: int, user_id: UUID, emoji: str) -> None:
    await tx.execute(
        "insert into learning.chat_reactions (cohort_id, message_id, user_id, emoji) values ($1, $2, $3, $4)"
        " on conflict do nothing",
        cohort_id,
        message_id,
        user_id,
        emoji,
    )


async def unreact(tx: Tx, message_id: int, user_id: UUID, emoji: str) -> None:
    await tx.execute(
        "delete from learning.chat_reactions where message_id = $1 and user_id = $2 and emoji = $3",
        message_id,
        user_id,
        emoji,
    )


async def mark_read(tx: Tx, cohort_id: UUID, user_id: UUID, message_id: int) -> None:
    """Remember how far a student has read. It never moves back."""
    await tx.execute(READ, cohort_id, user_id, message_id)
