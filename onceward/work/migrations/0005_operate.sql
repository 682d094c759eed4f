-- What operators do to unfinished work: replay and discard dead letters, cancel, hand out snoozes.

create function onceward.replay(p_id bigint) returns text language plpgsql as $$
-- Make a dead letter due again under the same id. 'taken': its unique key belongs to newer work, so it stays dead.
declare
    v record;
begin
    select * into v from onceward.work w where w.id = p_id and w.dead_reason is not null for update;
    if not found then
        return 'gone';
    end if;
    if v.unique_key is not null and exists (
        select from onceward.work w
         where coalesce(w.organization_id, '00000000-0000-0000-0000-000000000000'::uuid)
               = coalesce(v.organization_id, '00000000-0000-0000-0000-000000000000'::uuid)
           and w.unique_key = v.unique_key and w.dead_reason is null)
    then
        return 'taken';
    end if;
    update onceward.work
       set dead_reason = null, dead_at = null, attempts = 0, crashes = 0, cancel = null, sort_at = onceward.now()
     where id = p_id;
    perform onceward.settled(v.kind, p_id, 'retry', 0, null, null);
    return 'replayed';
end
$$;

create function onceward.discard(p_id bigint) returns text language plpgsql as $$
-- An operator has decided that a dead letter needs nothing more. What it was stays readable until it is pruned.
declare
    v record;
begin
    delete from onceward.work w where w.id = p_id and w.dead_reason is not null
    returning w.kind, w.task, w.attempts::int as attempts, w.organization_id, w.dead_reason, w.bundle into v;
    if not found then
        return 'gone';
    end if;
    insert into onceward.attempts (work_id, organization_id, number, kind, task, outcome, started_at, error)
    values (p_id, v.organization_id, v.attempts + 1, v.kind, v.task, 'discarded', clock_timestamp(),
            jsonb_build_object('type', 'Discarded', 'message', 'discarded by an operator', 'reason', v.dead_reason));
    if v.bundle is not null then
        perform onceward.leave_bundle(v.bundle);
    end if;
    perform onceward.settled(v.kind, p_id, 'discarded', v.attempts + 1, null, null);
    return 'discarded';
end
$$;

create function onceward.cancel(p_id bigint) returns text language plpgsql as $$
-- Waiting work ends now; running work is asked to stop and ends as soon as its worker has heard of it.
declare
    v record;
begin
    select w.kind, w.task, w.attempts::int as attempts, w.organization_id, w.lease, w.dead_reason, w.bundle into v
      from onceward.work w where w.id = p_id for update;
    if not found or v.dead_reason is not null then
        return 'gone';
    end if;
    if v.lease is not null then
        update onceward.work set cancel = true where id = p_id;
        return 'asked';
    end if;
    delete from onceward.work where id = p_id;
    insert into onceward.attempts (work_id, organization_id, number, kind, task, outcome, started_at, error)
    values (p_id, v.organization_id, v.attempts + 1, v.kind, v.task, 'cancelled', clock_timestamp(),
            '{"type": "Cancelled", "message": "cancelled before it started"}');
    if v.bundle is not null then
        perform onceward.leave_bundle(v.bundle);
    end if;
    perform onceward.settled(v.kind, p_id, 'cancelled', v.attempts + 1, null, null);
    return 'cancelled';
end
$$;
