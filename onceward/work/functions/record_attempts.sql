-- Append finished attempts. Nothing else inserts into onceward.attempts, so every end of a work item passes through here.
create or replace function onceward.record_attempts(p_attempts onceward.attempts[]) returns void language plpgsql as $$
begin
    insert into onceward.attempts select a.* from unnest(p_attempts) a;
end
$$;
