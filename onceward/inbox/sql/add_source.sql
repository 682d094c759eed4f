-- Create a source.
insert into onceward.sources
    (webhook_id, organization_id, name, provider, mode, secrets, options, public_url, tolerance_s, ordering, rate_per_s,
     max_body_bytes, retention_days, app)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
