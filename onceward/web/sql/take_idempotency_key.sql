-- Take a key for one request, or take it again after 24 hours. Returns no row if another request has the key.
insert into onceward.idempotency_keys as k (organization_id, scope, key, request_hash)
values ($1, $2, $3, $4)
on conflict (organization_id, scope, key) do update
   set request_hash = excluded.request_hash, status = null, content_type = null, body = null,
       withheld = '{}', created_at = clock_timestamp()
 where k.created_at < clock_timestamp() - interval '24 hours'
returning k.id
