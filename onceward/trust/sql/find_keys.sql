-- Return the API keys with this prefix, and whether the key was used from this address ($2) before. The caller compares the hash.
select key_id, organization_id, name, hash, scopes, apps, sources, addresses,
       revoked_at is not null as revoked,
       coalesce(expires_at <= onceward.now(), false) as expired,
       coalesce(last_used_at < onceward.now() - interval '1 minute', true) as touch,
       -- The person who created the key was disabled, has left, or may no longer do what the key may do.
       owner_id is not null and not exists (
           select from onceward.users u
             left join onceward.memberships m on m.user_id = u.user_id and m.organization_id = k.organization_id
            where u.user_id = k.owner_id and u.disabled_at is null
              and (u.admin or m.role = 'owner' or m.role is not null and not 'owner' = any (k.scopes))) as orphaned,
       -- Logged once a day, for two weeks.
       coalesce(expires_at < onceward.now() + interval '14 days', false)
           and coalesce(last_used_at < date_trunc('day', onceward.now()), true) as expires_soon, expires_at,
       exists (select from onceward.key_addresses a where a.key_id = k.key_id and a.address = $2) as known_address
from onceward.api_keys k where prefix = $1
