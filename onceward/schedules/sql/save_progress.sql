-- Store the counts of a run, fenced by the lease. Return no row if the lease is lost.
with held as (select id from onceward.work where id = $1 and lease = $2 for share)
update onceward.runs r set processed = $3, succeeded = $4, failed = $5, skipped = $6 from held where r.id = held.id
returning r.id
