-- Count successful and failed attempts per second.
select date_trunc('second', a.finished_at) as at,
       count(*) filter (where a.outcome = 'success') as processed,
       count(*) filter (where a.outcome in ('retry', 'failed', 'dead_letter', 'crashed', 'unknown')) as failed
  from onceward.attempts a
 where a.finished_at >= $1 and a.finished_at < $2
 group by 1
