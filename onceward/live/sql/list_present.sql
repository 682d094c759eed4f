-- List the users in a place, each once, with the time at which this result becomes stale.
select p.user_id, min(p.since) as since,
       case when bool_or(p.status = 'online') then 'online' else 'away' end as status,
       min(coalesce(n.expires_at, p.expires_at)) as until
  from onceward.presence p left join onceward.live_nodes n on n.node = p.node
 where p.place = $1 and coalesce(n.expires_at, p.expires_at) > onceward.now()
 group by p.user_id order by p.user_id
