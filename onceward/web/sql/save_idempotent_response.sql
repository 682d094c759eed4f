-- Store the response to the request that took the key.
update onceward.idempotency_keys set status = $2, content_type = $3, body = $4, withheld = $5 where id = $1 and status is null
