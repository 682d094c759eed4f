-- Return the queues and tasks whose due work nobody has run for longer than $1 seconds, as workers noted them. They
-- postpone some of that work again and again, so its due time says nothing.
select queue, kind, task, reason, waiting as count, null as first_id, extract(epoch from onceward.now() - since)::float8 as age_s
  from onceward.unserved
 where since <= onceward.now() - make_interval(secs => $1) and seen_at > onceward.now() - make_interval(secs => 2 * $1)
