-- End a dead letter without running it: 'discarded', or 'gone' if it is not a dead letter. Its record stays readable until
-- it is pruned.
create or replace function onceward.discard(p_id bigint) returns text language plpgsql as $$
declare
    v record;
begin
    delete from onceward.work w where w.id = p_id and w.dead_reason is not null
    returning w.kind, w.task, w.attempts::int as attempts, w.earlier, w.organization_id, w.dead_reason, w.bundle into v;
    if not found then
        return 'gone';
    end if;
    perform onceward.record_attempts(array[row(
        p_id, v.organization_id, v.attempts + 1, v.kind, v.task, 'discarded', null, clock_timestamp(), clock_timestamp(), null,
        jsonb_build_object('type', 'Discarded', 'message', 'discarded by an operator', 'reason', v.dead_reason), v.earlier
    )::onceward.attempt]);
    if v.bundle is not null then
        perform onceward.leave_bundle(v.bundle);
    end if;
    perform onceward.settled(v.kind, p_id, 'discarded', v.attempts + 1, null, null);
    return 'discarded';
end
$$;
