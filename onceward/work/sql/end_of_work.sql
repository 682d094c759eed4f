-- Return how this worker has just ended a work item, or null if the item goes on. A dead letter without a row was ended by SQL.
select onceward.work_end(row(
           a.work_id, a.organization_id, a.number, a.kind, a.task, a.outcome, a.worker, a.started_at, a.finished_at,
           a.result, a.error, 0)::onceward.attempt)
  from onceward.attempts a
 where a.work_id = $1 and a.worker = $2
   and a.finished_at = (select max(l.finished_at) from onceward.attempts l where l.work_id = $1 and l.worker = $2)
   and a.outcome in ('success', 'failed', 'dead_letter', 'cancelled', 'discarded', 'unknown')
   and (a.outcome <> 'dead_letter' or exists (select from onceward.work w where w.id = $1))
 limit 1
