-- Return how much organizations used in the last $1 hours and in the last hour of them, the $2 that used most time first.
select o.slug as organization, u.organization_id, sum(u.handled)::bigint as handled, sum(u.work_s)::float8 as work_s,
       sum(u.connections_s)::float8 as connections_s,
       coalesce(sum(u.work_s + u.connections_s) filter (where u.hour >= date_trunc('hour', onceward.now())), 0)::float8 as this_hour_s,
       (sum(u.work_s + u.connections_s) / nullif(sum(sum(u.work_s + u.connections_s)) over (), 0))::float8 as share
  from onceward.usage u
  left join onceward.organizations o on o.organization_id = u.organization_id
 where u.hour > onceward.now() - make_interval(hours => $1)
 group by u.organization_id, o.slug
 order by sum(u.work_s + u.connections_s) desc, o.slug
 limit $2
