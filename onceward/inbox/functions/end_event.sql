-- Record that a plain UPDATE has ended an event: delete its work or make it a dead letter, and record the attempt.
create or replace function onceward.end_event(p onceward.webhook_events) returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    v_reason text := onceward.dead_reason_of(p.error);
    v_earlier smallint;
begin
    if p.status = 'dead_letter' then
        perform onceward.queue_event(p, greatest(p.attempts - 1, 0));
        update onceward.work set dead_reason = v_reason, dead_at = onceward.now() where id = p.seq
        returning earlier into v_earlier;
    else
        delete from onceward.work where id = p.seq returning earlier into v_earlier;
    end if;
    perform onceward.record_attempts(array[row(
        p.seq, p.organization_id, greatest(p.attempts, 1), 'event', p.provider || '/' || p.type, p.status, null, p.last_attempt_at,
        clock_timestamp(), p.result,
        case when p.error is not null then jsonb_build_object('type', 'Reported', 'message', p.error, 'reason', v_reason) end, v_earlier
    )::onceward.attempt]);
    perform onceward.count_outcome(p.webhook_id, p.provider, p.status, v_reason);
end
$$;

revoke all on function onceward.end_event(onceward.webhook_events) from public;
