-- Enqueue the job `<task>#on_end` for each attempt that ended work whose task has a hook, in the transaction that ended it.
create or replace function onceward.enqueue_end_hooks(p_attempts onceward.attempt[]) returns void language plpgsql as $$
begin
    perform onceward.enqueue_one(
                a.task || '#on_end', onceward.work_end(a), h.queue, null, 0, null, 'unfinished', 'skip', null, null, false, null,
                null, null, null, null, a.organization_id, a.work_id, null)
       from unnest(p_attempts) a
       join onceward.end_hooks h on h.task = a.task
      where a.outcome in ('success', 'failed', 'dead_letter', 'cancelled', 'discarded', 'unknown');
end
$$;
