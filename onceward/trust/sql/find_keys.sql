-- Return the API keys with this prefix, and whether the key was used from this address ($2) before. The caller compares the hash.
select key_id, organization_id, name, hash, scopes, apps, sources, addresses,
       revoked_at is not null as revoked,
       coalesce(expires_at <= onceward.now(), false) as expired,
       coalesce(last_used_at < onceward.now() - interval '1 minute', true) as touch,
       exists (select from onceward.key_addresses a where a.key_id = k.key_id and a.address = $2) as known_address
from onceward.api_keys k where prefix = $1
