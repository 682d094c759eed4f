-- The clock has moved back from p_seen to p_now: move the ends of sleeps and waits with the workflows that wait for them
-- (onceward.move_back_work). Only workflows that are not finished have work, so finished ones are not looked at.
create or replace function onceward.move_back_workflows(p_now timestamptz, p_seen timestamptz) returns void language plpgsql as $$
begin
    update onceward.workflow_steps s set due_at = s.due_at - (p_seen - p_now)
      from onceward.work w
     where w.kind = 'workflow' and w.dead_reason is null and s.workflow_id = w.id
       and s.due_at > p_now and s.due_at <= p_seen + interval '1 minute';
    update onceward.workflow_rates set next_at = next_at - (p_seen - p_now) where next_at > p_now;
end
$$;
