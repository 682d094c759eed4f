-- Find pending deliveries without work: nothing would ever send them.
select d.id from onceward.deliveries d
 where d.status = 'pending' and not exists (select from onceward.work w where w.id = d.id) limit 100
