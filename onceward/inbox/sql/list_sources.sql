-- List the sources of one organization, or of all. Secrets are never selected.
select s.webhook_id, s.name, s.provider, s.app, s.mode, s.organization_id, s.public_url, s.ordering, s.rate_per_s,
       s.requests_per_s, s.requests_at_once, s.max_body_bytes, s.retention_days, s.origin, s.paused_at, s.created_at
  from onceward.sources s
 where s.deleted_at is null and ($1::uuid is null or s.organization_id = $1)
 order by s.name
