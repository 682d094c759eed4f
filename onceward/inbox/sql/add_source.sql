-- Create a source.
insert into onceward.sources
    (webhook_id, organization_id, name, provider, mode, secrets, options, public_url, tolerance_s, ordering, rate_per_s, requests_per_s,
     requests_at_once, max_body_bytes, retention_days, app)
values ($webhook_id, $organization, $name, $provider, $mode, $secrets, $options, $public_url, $tolerance_s, $ordering, $rate_per_s,
        $requests_per_s, $requests_at_once, $max_body_bytes, $retention_days, $app)
