-- Create the endpoint of a URL to which an app sends directly, unless it exists. Return no row if it exists.
insert into onceward.endpoints (organization_id, url, events, direct, ed25519) values ($1, $2, array['*'], true, true)
on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), md5(url)) where direct and deleted_at is null
do nothing returning endpoint_id
