-- Return the API keys with this prefix. The caller compares the hash.
select key_id, organization_id, name, hash, scopes,
       revoked_at is not null as revoked,
       coalesce(expires_at <= onceward.now(), false) as expired,
       coalesce(last_used_at < onceward.now() - interval '1 minute', true) as touch
from onceward.api_keys where prefix = $1
