-- Let messages that wait for a refused account ($3 is null) or template run now, at most $5 of them. $4 is how their reason begins.
update onceward.work w set sort_at = onceward.now()
 where w.lease is null
   and w.id in (select o.id
                  from onceward.work o join onceward.messages m on m.id = o.id
                 where o.queue = any($1::text[]) and o.lease is null and o.dead_reason is null and o.sort_at > onceward.now()
                   and m.organization_id is not distinct from coalesce($2, m.organization_id)
                   and m.template = coalesce($3, m.template) and starts_with(m.reason, $4)
                 order by o.sort_at limit $5::int)
returning w.id
