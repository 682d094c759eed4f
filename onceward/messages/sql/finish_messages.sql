-- Acknowledge messages that were sent or suppressed, fenced by lease. Returns how many were acknowledged; the others had lost
-- their lease. Messages that were sent are written together, in the order of ids, so that two commits cannot wait for each other.
-- `settled_message` does the same for one message, and also settles the suppressed ones and those of a notification.
with done as (
    delete from onceward.work
     where id = any($1::bigint[]) and lease = any($2::bigint[])
    returning id, organization_id, attempts, earlier, kind, task, claimed_at
), locked as materialized (
    select m.id, d.attempts + 1 as number, r.result, m.notification is not null or coalesce(r.result ? 'suppressed', false) as is_special
      from done d join onceward.messages m on m.id = d.id cross join lateral (select $4::jsonb -> d.id::text as result) r
     order by m.id
       for update of m
), sent as (
    update onceward.messages m
       set status = 'success', reason = null, attempts = l.number, reference = coalesce(l.result ->> 'reference', m.reference),
           sent_at = onceward.now(), sending = null, unsure_since = null
      from locked l where m.id = l.id and not l.is_special
), settled as materialized (
    select onceward.settled_message(l.id, 'success', l.number, l.result, null) from locked l where l.is_special
)
select count(*)::int,
       onceward.record_attempts(array_agg(row(
           id, organization_id, attempts + 1, kind, task, 'success', $3::bigint, claimed_at,
           (select clock_timestamp()),   -- one value for all rows: each new value would change the index's summary of the page
           $4::jsonb -> id::text, null, earlier
       )::onceward.attempt))
  from done where (select count(*) from settled) >= 0
