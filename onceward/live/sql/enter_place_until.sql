-- Add a holder without a connection to a place until a given time. `since` changes only if the status changes.
insert into onceward.presence (organization_id, place, user_id, holder, status, expires_at)
values ($1, $2, $3, $4, $5, onceward.now() + $6::interval)
on conflict (holder, place) do update set
    status = excluded.status, expires_at = excluded.expires_at,
    since = case when presence.status = excluded.status then presence.since else onceward.now() end
