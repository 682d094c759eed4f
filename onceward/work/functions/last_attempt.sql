-- Return the number of the last attempt of this work, or 0: after a replay the numbers continue there.
create or replace function onceward.last_attempt(p_id bigint) returns smallint language sql stable as $$
    select coalesce(max(number), 0::smallint) from onceward.attempts where work_id = p_id
$$;
