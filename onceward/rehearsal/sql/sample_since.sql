-- Return ids of events and jobs that arrived since a time: at most $limit, the same ones each time, of the whole period.
with bounds as (
    select coalesce((select e.seq from onceward.webhook_events e where e.received_at < $since::timestamptz - interval '10 minutes'
                      order by e.seq desc limit 1), 0) as event,
           coalesce((select j.id from onceward.jobs j where j.created_at < $since::timestamptz - interval '10 minutes'
                      order by j.id desc limit 1), 0) as job
), recent as (
    select e.seq as id
      from onceward.webhook_events e, bounds b
     where e.seq > b.event and e.received_at >= $since::timestamptz
       and ($types::text[] is null or e.type = any($types) or e.provider || '/' || e.type = any($types))
       and ($organization::uuid is null or e.organization_id = $organization)
    union all
    select j.id
      from onceward.jobs j, bounds b
     where j.id > b.job and j.created_at >= $since::timestamptz
       and ($types::text[] is null or j.task = any($types))
       and ($organization::uuid is null or j.organization_id = $organization)
), sampled as (
    select id from recent order by hashint8(id), id limit $limit::int
)
select id from sampled order by id
