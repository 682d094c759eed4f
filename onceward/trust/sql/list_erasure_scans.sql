-- Return the scans that nobody has continued for 10 seconds, if the erasers $1 include all that they began with. A scan that no such
-- process continues for a day is continued with those that there are.
select id, examined from onceward.erasure_scans
 where finished_at is null and turned_at < clock_timestamp() - interval '10 seconds'
   and (erasers <@ $1 or turned_at < clock_timestamp() - interval '1 day')
 order by id
