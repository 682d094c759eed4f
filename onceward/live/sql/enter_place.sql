-- Add a connection of this node to a place. `since` changes only if the status changes.
insert into onceward.presence (organization_id, place, user_id, holder, node, status)
values ($1, $2, $3, $4, $5, $6)
on conflict (holder, place) do update set status = excluded.status, since = onceward.now()
 where presence.status <> excluded.status
