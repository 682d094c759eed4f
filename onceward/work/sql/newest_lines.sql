-- Return the lines of the newest $3 due rows of queue $1 that became due after $2, with organization and weight, and the
-- line of work without an organization if that has due work.
select n.line, n.organization_id, coalesce(o.weight, 1)::int as weight, onceward.now() as at
  from (select distinct r.line, r.organization_id
          from (select w.line, w.organization_id from onceward.work w
                 where w.queue = $1 and w.line <> 0 and w.sort_at > $2 and w.sort_at <= onceward.now()
                   and w.lease is null and w.lane is null and w.dead_reason is null
                 order by w.sort_at desc limit $3) r) n
  left join onceward.organizations o on o.organization_id = n.organization_id
union all
select 0, null, 1, onceward.now()
  from (select w.id from onceward.work w
         where w.queue = $1 and w.line = 0 and w.sort_at <= onceward.now()
           and w.lease is null and w.lane is null and w.dead_reason is null
         order by w.sort_at limit 1) first   -- not `exists`, for which PostgreSQL may choose a scan of the table
