-- Set the status of an event after an attempt: pending again, or ended. Number 0 means a replay.
create or replace function onceward.settled_event(p_id bigint, p_outcome text, p_number int, p_result jsonb, p_error jsonb)
    returns void language plpgsql as $$
declare
    v_again boolean := p_outcome in ('retry', 'snoozed', 'crashed');
    v record;
begin
    update onceward.webhook_events
       set status = case when v_again then 'pending' when p_outcome in ('success', 'dead_letter') then p_outcome else 'failed' end,
           attempts = case when p_number = 0 then 0 when p_outcome = 'snoozed' then attempts else greatest(attempts, p_number) end,
           last_attempt_at = case when p_number > 0 then onceward.now() end,
           processed_at = case when not v_again then onceward.now() end,
           error = coalesce(p_error ->> 'said',
                            nullif(concat_ws(': ', p_error ->> 'reason', p_error ->> 'type', p_error ->> 'message'), '')),
           result = coalesce(p_result, result),
           settles = settles + 1
     where seq = p_id
    returning webhook_id, provider into v;
    if p_number = 0 then
        insert into onceward.webhook_counts
        values ('replay', v.webhook_id, v.provider, coalesce(nullif(current_setting('onceward.operator', true), ''), 'operator'));
    elsif p_outcome = 'dead_letter' and p_error ->> 'reason' = 'worker_lost' then
        insert into onceward.webhook_counts values ('dead_letter', v.webhook_id, v.provider, 'worker_lost');
    end if;
end
$$;
