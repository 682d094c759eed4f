-- Return the request that has a key, with its response; the status is null while no response is stored.
select id, request_hash, status, content_type, body, withheld
  from onceward.idempotency_keys where organization_id = $1 and scope = $2 and key = $3
