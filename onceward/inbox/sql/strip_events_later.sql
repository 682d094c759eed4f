-- Strip the bodies of events that were unfinished or dead letters when the mark passed them, and have ended since.
with ended as materialized (
    select p.seq from onceward.prune_events p join onceward.webhook_events e using (seq)
     where e.status in ('success', 'failed') limit $1
), stripped as (
    update onceward.webhook_events e set payload = null, raw = null, headers = null, signature = null, settles = settles + 1
      from ended where e.seq = ended.seq
), spent as (
    delete from onceward.attempts a using ended where a.work_id = ended.seq
)
delete from onceward.prune_events p using ended where p.seq = ended.seq
