-- Cancel work: waiting work ends now ('cancelled'), running work gets a request to stop ('asked'). 'gone': it has ended or
-- is a dead letter.
create or replace function onceward.cancel(p_id bigint) returns text language plpgsql as $$
declare
    v record;
begin
    select w.kind, w.task, w.attempts::int as attempts, w.earlier, w.organization_id, w.lease, w.dead_reason, w.bundle into v
      from onceward.work w where w.id = p_id for update;
    if not found or v.dead_reason is not null then
        return 'gone';
    end if;
    if v.lease is not null then
        update onceward.work set cancel = true where id = p_id;
        return 'asked';
    end if;
    delete from onceward.work where id = p_id;
    perform onceward.record_attempts(array[row(
        p_id, v.organization_id, v.attempts + 1, v.kind, v.task, 'cancelled', null, clock_timestamp(), clock_timestamp(), null,
        '{"type": "Cancelled", "message": "cancelled before it started"}', v.earlier
    )::onceward.attempt]);
    if v.bundle is not null then
        perform onceward.leave_bundle(v.bundle);
    end if;
    perform onceward.settled(v.kind, p_id, 'cancelled', v.attempts + 1, null, null);
    return 'cancelled';
end
$$;
