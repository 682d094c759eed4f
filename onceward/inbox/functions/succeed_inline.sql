-- Record the success of an event that this transaction has stored with receive_inline(). No lease fences it: nobody else can see it.
-- p_shared is how many requests share the commit; null: this one only.
create or replace function onceward.succeed_inline(
    p_seq bigint, p_organization_id uuid, p_task text, p_elapsed_s float8, p_result jsonb, p_shared int default null
) returns void language plpgsql as $$
begin
    perform onceward.record_attempts(array[row(
        p_seq, p_organization_id, 1, 'event', p_task, 'success', 0, clock_timestamp() - make_interval(secs => p_elapsed_s),
        clock_timestamp(), p_result, null, 0
    )::onceward.attempt], p_shared);
    if p_result is not null then
        update onceward.webhook_events set result = p_result, settles = settles + 1 where seq = p_seq;
    end if;
end
$$;
