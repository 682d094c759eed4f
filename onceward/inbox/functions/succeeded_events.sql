-- Set the status of the events of a batch that succeeded: what settled_event does with one, in one statement.
create or replace function onceward.succeeded_events(p_attempts onceward.attempt[]) returns void language sql as $$
    update onceward.webhook_events e
       set status = 'success', attempts = greatest(e.attempts, a.number), last_attempt_at = onceward.now(),
           processed_at = onceward.now(), error = null, result = coalesce(a.result, e.result), settles = settles + 1
      from unnest(p_attempts) a
     where e.seq = a.work_id
$$;
