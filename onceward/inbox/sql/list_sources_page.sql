-- List the sources for the dashboard, those that the engine created last.
select s.webhook_id, s.name, s.provider, s.app, s.mode, s.organization_id, s.ordering, s.rate_per_s, s.max_body_bytes, s.retention_days,
       s.origin, s.paused_at, s.created_at
  from onceward.sources s where s.deleted_at is null order by s.origin = 'builtin', s.name limit 500
