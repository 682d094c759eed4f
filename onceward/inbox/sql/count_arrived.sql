-- Count the events that arrived in each second of a period.
select date_trunc('second', r.received_at) as at, count(*) as arrived from onceward.webhook_events r
 where r.seq > $3 and r.received_at >= $1 and r.received_at < $2 group by 1
