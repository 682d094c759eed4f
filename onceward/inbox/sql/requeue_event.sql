-- Queue an event again, only if its status is still $2 and it has its body: in the meantime another operator may have replayed it,
-- or its body may have been stripped.
with locked as materialized (
    select e from onceward.webhook_events e
     where e.seq = $1 and e.status = $2 and (e.payload is not null or e.raw is not null)
         and (e.status <> 'success' or e.result = '"unhandled"')
       for update
)
select onceward.queue_event(e, 0), onceward.settled_event((e).seq, 'retry', 0, null, null) from locked
