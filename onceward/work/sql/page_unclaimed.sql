-- Count work that has been due for a minute and whose task no worker knows, among the oldest unfinished work.
select w.task, count(*) as count from (select * from onceward.work order by id limit 5000) w
 where w.lease is null and w.dead_reason is null and w.sort_at < onceward.now() - interval '1 minute'
   and not exists (select from onceward.workers k where w.task = any(k.tasks))
 group by 1 order by 2 desc limit 5
