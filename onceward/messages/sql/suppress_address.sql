-- Suppress an address in an organization. An address that an erasure has removed gets its name back only by this.
insert into onceward.suppressions (organization_id, address_hash, address, reason, source, status, message)
values ($1, onceward.person_hash($2), lower(btrim($2)), $3, $4, $5, $6)
on conflict do nothing
returning true
