-- List $3 sources for the dashboard by name, after the name $2: those that people or the environment made.
select s.webhook_id, s.name, s.provider, s.app, s.mode, s.organization_id, s.ordering, s.rate_per_s, s.requests_per_s, s.requests_at_once,
       s.max_body_bytes, s.retention_days, s.origin, s.paused_at, s.created_at,
       (select sum(1 + r.more)::bigint from onceward.webhook_rejects r
         where r.source = s.name and r.status = 429 and r.at > onceward.now() - interval '24 hours') as limited
  from onceward.sources s
 where s.deleted_at is null and s.name > $2 and s.origin <> 'builtin' and ($1::uuid is null or s.organization_id = $1)
 order by s.name limit $3
