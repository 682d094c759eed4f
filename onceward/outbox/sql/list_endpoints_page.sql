-- List $5 endpoints for the dashboard after the one that is active ($2), made at $3 and named $4, with the outcomes of their last 100
-- deliveries: disabled ones first, then the newest.
select e.endpoint_id, e.organization_id, e.url, e.description, e.events, e.active, e.disabled_at, e.disabled_reason, e.warned_at,
       e.max_in_flight, e.rate_per_s, e.ordered, e.created_at, recent.sent, recent.good, recent.last_at
  from (select * from (
            (select * from onceward.endpoints p
              where p.deleted_at is null and p.active = $2 and (p.created_at, p.endpoint_id) < ($3, $4)
                and ($1::uuid is null or p.organization_id = $1)
              order by p.created_at desc, p.endpoint_id desc limit $5)
            union all
            (select * from onceward.endpoints p
              where p.deleted_at is null and p.active and not $2 and ($1::uuid is null or p.organization_id = $1)
              order by p.created_at desc, p.endpoint_id desc limit $5)) both_states
         order by active, created_at desc, endpoint_id desc limit $5) e
  cross join lateral (
      select count(*) as sent, count(*) filter (where d.status = 'success') as good, max(d.last_attempt_at) as last_at
        from (select d.status, d.last_attempt_at from onceward.deliveries d
               where d.endpoint_id = e.endpoint_id order by d.id desc limit 100) d
  ) recent
 order by e.active, e.created_at desc, e.endpoint_id desc
