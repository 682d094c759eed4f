-- Store a source that the environment declares. A source of the same name that an operator created stays as it is.
insert into onceward.sources as s
    (webhook_id, organization_id, name, provider, mode, public_url, tolerance_s, ordering, rate_per_s, requests_per_s,
     requests_at_once, max_body_bytes, retention_days, app, origin)
values ($webhook_id, $organization, $name, $provider, $mode, $public_url, $tolerance_s, $ordering, $rate_per_s,
        $requests_per_s, $requests_at_once, $max_body_bytes, $retention_days, $app, 'environment')
on conflict (name) where deleted_at is null do update
   set organization_id = excluded.organization_id, provider = excluded.provider, mode = excluded.mode,
       public_url = excluded.public_url, tolerance_s = excluded.tolerance_s, ordering = excluded.ordering,
       rate_per_s = excluded.rate_per_s, requests_per_s = excluded.requests_per_s,
       requests_at_once = excluded.requests_at_once, max_body_bytes = excluded.max_body_bytes,
       retention_days = excluded.retention_days, app = excluded.app, changed_at = clock_timestamp()
 where s.origin = 'environment'
returning webhook_id
