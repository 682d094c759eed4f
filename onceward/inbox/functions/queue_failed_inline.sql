-- Give an event that receive_inline() has stored its work, because its handler failed: a worker may handle it later. The work is leased
-- to the request, which settles it with the failure.
create or replace function onceward.queue_failed_inline(
    p_seq bigint, p_organization_id uuid, p_task text, p_queue text, p_lease bigint
) returns void language plpgsql as $$
declare
    v_source uuid;
begin
    update onceward.webhook_events
       set status = 'pending', attempts = 0, last_attempt_at = null, processed_at = null, settles = settles + 1
     where seq = p_seq returning webhook_id into v_source;
    insert into onceward.work (id, organization_id, line, kind, task, queue, sort_at, lease, claimed_at, source)
    values (p_seq, p_organization_id, onceward.line_of(p_organization_id, null), 'event', p_task, p_queue,
        onceward.now(), p_lease, clock_timestamp(), v_source);
end
$$;
