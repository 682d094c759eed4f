-- Make a waiting workflow due, so that it reads what has arrived. A running workflow reads it before it pauses.
create or replace function onceward.workflow_release(p_id bigint) returns void language sql as $$
    update onceward.work set sort_at = onceward.now()
     where id = p_id and lease is null and dead_reason is null and sort_at > onceward.now();
$$;
