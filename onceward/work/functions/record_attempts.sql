-- Append finished attempts. Nothing else inserts into onceward.attempts, so every end of a work item passes through here.
-- Work without a worker was ended by SQL (cancelled, discarded, no handler): its on_end hooks become jobs. A worker runs the
-- hooks of the work that it settles.
create or replace function onceward.record_attempts(p_attempts onceward.attempts[]) returns void language plpgsql as $$
begin
    insert into onceward.attempts select a.* from unnest(p_attempts) a;
    if p_attempts[1].worker is null then
        perform onceward.enqueue_end_hooks(p_attempts);
    end if;
end
$$;
