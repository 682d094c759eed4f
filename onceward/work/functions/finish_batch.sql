-- Finish all work that shares a transaction, as its last statement: a batch, or handlers that ran one after the other. One lost lease
-- raises OW001 and prevents the commit. p_results has the result of each member under its id, or is null. p_elapsed_s says how long ago
-- each began; without it they began when they were claimed.
create or replace function onceward.finish_batch(
    p_ids bigint[], p_leases bigint[], p_worker bigint, p_results jsonb, p_elapsed_s float8[] default null
) returns void language plpgsql as $$
declare
    v_count int;
    v_bundles bigint[];
    v_bundle bigint;
    v_attempts onceward.attempt[];
begin
    with done as (
        delete from onceward.work
         where id = any(p_ids) and lease = any(p_leases) and replaced_under is distinct from lease
        returning id, organization_id, attempts, earlier, kind, task, claimed_at, bundle
    )
    select count(*), array_agg(bundle order by bundle) filter (where bundle is not null),
           array_agg(row(id, organization_id, attempts + 1, kind, task, 'success', p_worker,
                         coalesce((select clock_timestamp()) - make_interval(secs => p_elapsed_s[array_position(p_ids, id)]), claimed_at),
                         (select clock_timestamp()), p_results -> id::text, null, earlier)::onceward.attempt)
      into v_count, v_bundles, v_attempts from done;
    perform onceward.record_attempts(v_attempts, case when v_count > 1 then v_count end);
    -- All members are of one kind. A kind with batches has onceward.succeeded_<kind>s for its table.
    if v_attempts[1].kind <> 'job' then
        execute format('select onceward.succeeded_%ss($1)', v_attempts[1].kind) using v_attempts;
    end if;
    -- In order: otherwise two batches with members of the same bundles could deadlock.
    foreach v_bundle in array coalesce(v_bundles, '{}') loop
        perform onceward.leave_bundle(v_bundle);
    end loop;
    if v_count < cardinality(p_ids) then
        v_count := v_count + (
            select count(*) from onceward.work w
             where w.id = any(p_ids) and w.lease = any(p_leases)
               and onceward.run_again(w.id, w.lease, p_worker, 'success', w.claimed_at, p_results -> w.id::text, null));
    end if;
    if v_count < cardinality(p_ids) then
        raise exception 'a batch is no longer held under its lease' using errcode = 'OW001';
    end if;
end
$$;
