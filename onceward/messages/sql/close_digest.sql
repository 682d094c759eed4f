-- Put the messages that wait for a digest into it, and return them. A digest that was closed before keeps what it has; messages that
-- were cancelled or have expired since are left out, also if an earlier try to send the digest had them.
with judged as materialized (
    select e.message, e.is_included,
           m.status = 'pending' and w.id is not null and not coalesce(w.cancel, false) and w.dead_reason is null
           and (m.expires_at is null or m.expires_at > onceward.now())
           and (e.is_included or not (select d.data ? 'closed' from onceward.messages d where d.id = $1)) as fits
      from onceward.digest_entries e join onceward.messages m on m.id = e.message left join onceward.work w on w.id = m.id
     where e.digest = $1
), stored as (
    update onceward.digest_entries e set is_included = j.fits from judged j where e.message = j.message and j.fits <> j.is_included
)
select message from judged where fits
