-- The ways out of processing. Each clears the lease or deletes the row; each is fenced by (id, lease).

create function onceward.settled(p_kind text, p_id bigint, p_outcome text, p_number int, p_result jsonb, p_error jsonb)
    returns void language plpgsql as $$
-- Tell the kind's own table what became of its row: onceward.settled_<kind>, made by the package that owns it.
begin
    if p_kind <> 'job' then
        execute format('select onceward.settled_%s($1, $2, $3, $4, $5)', p_kind)
            using p_id, p_outcome, p_number, p_result, p_error;
    end if;
end
$$;

create function onceward.leave_bundle(p_bundle bigint) returns void language plpgsql as $$
-- One member of the bundle is done; the last one releases what waits for it.
declare
    v_then bigint;
begin
    update onceward.bundles set remaining = remaining - 1
     where id = p_bundle
    returning case when remaining = 0 then then_id end into v_then;
    if v_then is not null then
        update onceward.work set sort_at = onceward.now() where id = v_then and lease is null;
        delete from onceward.bundles where id = p_bundle;
    end if;
end
$$;

create function onceward.settle(
    p_id bigint, p_lease bigint, p_worker bigint, p_outcome text, p_started timestamptz,
    p_result jsonb default null, p_error jsonb default null, p_due timestamptz default null, p_reason text default null
) returns boolean language plpgsql as $$
-- One attempt is over. False: the lease was lost, nothing was written.
declare
    v record;
begin
    if p_outcome = 'crashed' then
        -- Its handler lost the connection. A restart of the server is nobody's fault; otherwise it counts as a crash, since a
        -- statement that ends its own session would run for ever. p_reason is that of the dead letter it becomes at the third.
        update onceward.work w
           set lease = null, claimed_at = null, slot = null, parent_slot = null, sort_at = p_due,
               crashes = w.crashes + n.counted,
               dead_reason = case when w.crashes + n.counted >= 3 then p_reason end,
               dead_at = case when w.crashes + n.counted >= 3 then onceward.now() end
          from (select case when c.claimed_at > pg_postmaster_start_time() then 1 else 0 end as counted
                  from onceward.work c where c.id = p_id and c.lease = p_lease for update) n
         where w.id = p_id and w.lease = p_lease
        returning w.kind, w.task, w.attempts::int as attempts, w.organization_id, null::bigint as bundle,
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
         where id = p_id and lease = p_lease
        returning kind, task, (attempts - case when p_outcome = 'retry' then 1 else 0 end)::int as attempts,
                  organization_id, null::bigint as bundle into v;
    elsif p_outcome = 'dead_letter' then
        update onceward.work
           set lease = null, claimed_at = null, slot = null, parent_slot = null, cancel = null,
               dead_reason = p_reason, dead_at = onceward.now()
         where id = p_id and lease = p_lease
        returning kind, task, attempts::int as attempts, organization_id, null::bigint as bundle into v;
    else
        delete from onceward.work where id = p_id and lease = p_lease
        returning kind, task, attempts::int as attempts, organization_id, bundle into v;
    end if;
    if not found then
        return false;
    end if;
    insert into onceward.attempts
        (work_id, organization_id, number, kind, task, outcome, worker, started_at, result, error)
    values (p_id, v.organization_id, v.attempts + 1, v.kind, v.task, p_outcome, p_worker, p_started, p_result, p_error);
    if v.bundle is not null then
        perform onceward.leave_bundle(v.bundle);
    end if;
    if v.kind <> 'job' then
        perform onceward.settled(v.kind, p_id, p_outcome, v.attempts + 1, p_result, p_error);
    end if;
    return true;
end
$$;

create function onceward.succeed_or_fail(
    p_id bigint, p_lease bigint, p_worker bigint, p_started timestamptz, p_result jsonb
) returns void language plpgsql as $$
-- Success as the last statement of a handler's transaction: a lost lease prevents the commit. As settle() does it, without a
-- branch: every transaction pays for this one.
declare
    v_organization uuid;
    v_number int;
    v_kind text;
    v_task text;
    v_bundle bigint;
begin
    delete from onceward.work where id = p_id and lease = p_lease
    returning organization_id, attempts + 1, kind, task, bundle into v_organization, v_number, v_kind, v_task, v_bundle;
    if not found then
        raise exception 'work % is no longer held under this lease', p_id using errcode = 'OW001';
    end if;
    insert into onceward.attempts (work_id, organization_id, number, kind, task, outcome, worker, started_at, result)
    values (p_id, v_organization, v_number, v_kind, v_task, 'success', p_worker, p_started, p_result);
    if v_bundle is not null then
        perform onceward.leave_bundle(v_bundle);
    end if;
    if v_kind <> 'job' then
        perform onceward.settled(v_kind, p_id, 'success', v_number, p_result, null);
    end if;
end
$$;

create function onceward.finish_or_fail(p_ids bigint[], p_leases bigint[], p_worker bigint) returns void
    language plpgsql as $$
-- All of a batch as the last statement of its transaction: one lost lease prevents the commit.
declare
    v_count int;
    v_bundles bigint[];
    v_bundle bigint;
begin
    with done as (
        delete from onceward.work
         where id = any(p_ids) and lease = any(p_leases)
        returning id, organization_id, attempts, kind, task, claimed_at, bundle
    ), noted as (
        insert into onceward.attempts (work_id, organization_id, number, kind, task, outcome, worker, started_at)
        select id, organization_id, attempts + 1, kind, task, 'success', p_worker, claimed_at from done
    )
    select count(*), array_agg(bundle order by bundle) filter (where bundle is not null) into v_count, v_bundles from done;
    -- In order, so that two batches with members of the same bundles do not wait for each other.
    foreach v_bundle in array coalesce(v_bundles, '{}') loop
        perform onceward.leave_bundle(v_bundle);
    end loop;
    if v_count < cardinality(p_ids) then
        raise exception 'a batch is no longer held under its lease' using errcode = 'OW001';
    end if;
end
$$;

create function onceward.rescue(p_worker bigint, p_beat bigint)
    returns table (id bigint, kind text, task text, organization_id uuid, crashes int, dead boolean)
    language plpgsql as $$
-- Give back what a dead worker held. A suspect (two workers died with it) ran alone and is to blame; without one, all
-- count up. A first crash is nobody's fault yet: what many workers held must not have to run one after the other.
declare
    v_claim record;
    v_row record;
    v_suspects boolean;
    v_counts boolean;
begin
    -- Its own heart may have moved since it was observed: then it lives, and keeps what it has.
    perform from onceward.workers w where w.id = p_worker for update;
    if exists (select from onceward.workers w where w.id = p_worker and w.beat is distinct from p_beat) then
        return;
    end if;
    delete from onceward.workers w where w.id = p_worker;

    -- A workflow runs among others once more before it runs alone: it has many steps, and most were not to blame.
    select coalesce(bool_or(w.crashes > 1), false) into v_suspects
      from onceward.claims c
      join onceward.work w on w.id = any(c.ids) and w.lease = c.lease
     where c.worker = p_worker;

    for v_claim in delete from onceward.claims c where c.worker = p_worker returning c.lease, c.ids loop
        for v_row in
            select w.id, w.kind, w.task, w.attempts, w.crashes, w.organization_id, w.claimed_at
              from onceward.work w
             where w.id = any(v_claim.ids) and w.lease = v_claim.lease
             order by w.id for update
        loop
            v_counts := v_row.crashes > 1 or not v_suspects;
            update onceward.work w
               set lease = null, claimed_at = null, slot = null, parent_slot = null,
                   crashes = w.crashes + case when v_counts then 1 else 0 end,
                   dead_reason = case when v_counts and w.crashes + 1 >= 3 then 'worker_lost' end,
                   dead_at = case when v_counts and w.crashes + 1 >= 3 then onceward.now() end
             where w.id = v_row.id;
            if v_counts then
                insert into onceward.attempts
                    (work_id, organization_id, number, kind, task, outcome, worker, started_at, error)
                values (v_row.id, v_row.organization_id, v_row.attempts + 1, v_row.kind, v_row.task,
                        case when v_row.crashes + 1 >= 3 then 'dead_letter' else 'crashed' end, p_worker, v_row.claimed_at,
                        jsonb_build_object('type', 'WorkerLost', 'message', 'the worker holding it stopped without a word',
                                           'reason', 'worker_lost'));
                if v_row.kind <> 'job' then
                    perform onceward.settled(v_row.kind, v_row.id,
                        case when v_row.crashes + 1 >= 3 then 'dead_letter' else 'crashed' end, v_row.attempts + 1,
                        null, '{"type": "WorkerLost", "reason": "worker_lost"}');
                end if;
            end if;
            id := v_row.id; kind := v_row.kind; task := v_row.task; organization_id := v_row.organization_id;
            crashes := v_row.crashes + case when v_counts then 1 else 0 end;
            dead := v_counts and v_row.crashes + 1 >= 3;
            return next;
        end loop;
    end loop;
end
$$;
