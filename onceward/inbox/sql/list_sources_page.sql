-- List the sources for the dashboard, those that the engine created last.
select s.webhook_id, s.name, s.provider, s.app, s.mode, s.organization_id, s.ordering, s.rate_per_s, s.requests_per_s, s.requests_at_once,
       s.max_body_bytes, s.retention_days, s.origin, s.paused_at, s.created_at,
       r.limited
  from onceward.sources s
  left join (select source, sum(1 + more)::bigint as limited from onceward.webhook_rejects
              where status = 429 and at > onceward.now() - interval '24 hours' group by source) r on r.source = s.name
 where s.deleted_at is null order by s.origin = 'builtin', s.name limit 500
