-- Lock the next resend that is due for a step. Other nodes skip it.
select * from onceward.resends
 where state = 'running' and (stepped_at is null or stepped_at < clock_timestamp() - interval '0.9 seconds')
 order by id limit 1 for update skip locked
