-- List 101 endpoints for the dashboard, from the one with the place $1 on, with the outcomes of their last 100 deliveries,
-- disabled ones first.
select e.endpoint_id, e.organization_id, e.url, e.description, e.events, e.active, e.disabled_at, e.disabled_reason, e.warned_at,
       e.max_in_flight, e.rate_per_s, e.ordered, e.created_at, recent.sent, recent.good, recent.last_at
  from (select * from onceward.endpoints
         where deleted_at is null order by active, created_at desc, endpoint_id offset $1 limit 101) e
  cross join lateral (
      select count(*) as sent, count(*) filter (where d.status = 'success') as good, max(d.last_attempt_at) as last_at
        from (select d.status, d.last_attempt_at from onceward.deliveries d
               where d.endpoint_id = e.endpoint_id order by d.id desc limit 100) d
  ) recent
 order by e.active, e.created_at desc, e.endpoint_id
