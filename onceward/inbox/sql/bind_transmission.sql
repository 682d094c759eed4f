-- Bind a transmission id to the hash of its first body, and return the hash that is bound now.
insert into onceward.webhook_transmissions as t (webhook_id, transmission_id, body_sha256) values ($1, $2, $3)
on conflict (webhook_id, transmission_id) do update set body_sha256 = t.body_sha256
returning t.body_sha256
