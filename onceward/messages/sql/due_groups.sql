-- Return the groups of notices that have waited long enough and were not reported recently.
select group_key from onceward.notices n
 where told_at is null
 group by group_key
having min(created_at) <= onceward.now() - make_interval(secs => $1)
   and not exists (select from onceward.notices t where t.group_key = n.group_key
                      and t.told_at > onceward.now() - make_interval(secs => $2))
