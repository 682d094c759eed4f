-- Make events dead letters at once, because no attempt could handle them.
create or replace function onceward.bury_events(p_ids bigint[], p_reason text, p_said text) returns void language plpgsql as $$
declare
    v record;
begin
    for v in
        update onceward.work set dead_reason = p_reason, dead_at = onceward.now() where id = any(p_ids)
        returning id, organization_id, earlier, task
    loop
        perform onceward.record_attempts(array[row(
            v.id, v.organization_id, 1, 'event', v.task, 'dead_letter', null, null, clock_timestamp(), null,
            jsonb_build_object('type', 'PayloadInvalid', 'message', p_said, 'reason', p_reason), v.earlier
        )::onceward.attempt]);
        perform onceward.settled_event(v.id, 'dead_letter', 1, null, jsonb_build_object(
            'said', p_reason || ': ' || p_said));
    end loop;
end
$$;
