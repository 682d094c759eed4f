-- Record the end of one attempt, fenced by the lease. False: the lease was lost and nothing was written.
create or replace function onceward.settle(
    p_id bigint, p_lease bigint, p_worker bigint, p_outcome text, p_started timestamptz,
    p_result jsonb default null, p_error jsonb default null, p_due timestamptz default null, p_reason text default null
) returns boolean language plpgsql as $$
declare
    v record;
    v_recorded int;
begin
    -- An operator cancelled the work, and its attempt failed before the worker heard of it: it does not run again.
    if p_outcome in ('retry', 'snoozed', 'crashed')
       and exists (select from onceward.work where id = p_id and lease = p_lease and cancel for update) then
        p_outcome := 'cancelled';
    end if;
    if p_outcome = 'crashed' then
        -- The handler lost its connection. A restart of the server or a failover is not counted; anything else counts as a crash, because a
        -- statement that ends its own session would run for ever. p_reason is the reason of the dead letter after the third crash.
        update onceward.work w
           set lease = null, claimed_at = null, slot = null, parent_slot = null, sort_at = p_due,
               crashes = w.crashes + n.counted,
               dead_reason = case when w.crashes + n.counted >= 3 then p_reason end,
               dead_at = case when w.crashes + n.counted >= 3 then onceward.now() end
          from (select case when c.claimed_at > onceward.server_since() then 1 else 0 end as counted
                  from onceward.work c where c.id = p_id and c.lease = p_lease and c.replaced_under is distinct from c.lease for update) n
         where w.id = p_id and w.lease = p_lease
        returning w.kind, w.task, w.attempts::int as attempts, w.earlier, w.organization_id, null::bigint as bundle,
                  case when w.dead_reason is not null then 'dead_letter' when n.counted = 1 then 'crashed' else 'snoozed' end as outcome
             into v;
        if found then
            p_outcome := v.outcome;
        end if;
    elsif p_outcome in ('retry', 'snoozed') then
        update onceward.work
           set lease = null, claimed_at = null, slot = null, parent_slot = null, sort_at = p_due,
               attempts = attempts + case when p_outcome = 'retry' then 1 else 0 end,
               crashes = 0
         where id = p_id and lease = p_lease and replaced_under is distinct from lease
        returning kind, task, (attempts - case when p_outcome = 'retry' then 1 else 0 end)::int as attempts,
                  earlier, organization_id, null::bigint as bundle into v;
    elsif p_outcome = 'dead_letter' then
        update onceward.work
           set lease = null, claimed_at = null, slot = null, parent_slot = null, cancel = null,
               dead_reason = p_reason, dead_at = onceward.now()
         where id = p_id and lease = p_lease and replaced_under is distinct from lease
        returning kind, task, attempts::int as attempts, earlier, organization_id, null::bigint as bundle into v;
    else
        delete from onceward.work
         where id = p_id and lease = p_lease and (replaced_under is distinct from lease or p_outcome = 'cancelled')
        returning kind, task, attempts::int as attempts, earlier, organization_id, bundle into v;
    end if;
    if not found then
        return onceward.run_again(p_id, p_lease, p_worker, p_outcome, p_started, p_result, p_error);
    end if;
    v_recorded := onceward.record_attempts(array[row(
        p_id, v.organization_id, v.attempts + 1, v.kind, v.task, p_outcome, p_worker, p_started, clock_timestamp(), p_result, p_error,
        v.earlier
    )::onceward.attempt]);
    if v.bundle is not null then
        perform onceward.leave_bundle(v.bundle);
    end if;
    if v.kind <> 'job' then
        perform onceward.settled(v.kind, p_id, p_outcome, v.attempts + 1, p_result, p_error);
    end if;
    return true;
end
$$;
