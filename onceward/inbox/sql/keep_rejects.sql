-- Store rejected requests in a fixed number of slots: new rows replace the oldest, so that a flood cannot fill the
-- disk.
insert into onceward.webhook_rejects (slot, organization_id, source, provider, reason, status, ip, bytes, more)
select nextval('onceward.webhook_reject_slots'), r.organization_id, r.source, r.provider, r.reason, r.status, r.ip, r.bytes,
       r.more
  from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::int[], $6::text[], $7::int[], $8::int[])
       as r (organization_id, source, provider, reason, status, ip, bytes, more)
on conflict (slot) do update
   set organization_id = excluded.organization_id, at = excluded.at, source = excluded.source, provider = excluded.provider,
       reason = excluded.reason, status = excluded.status, ip = excluded.ip, bytes = excluded.bytes, more = excluded.more
