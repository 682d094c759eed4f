-- Mark many items of a run as done, within the transaction that does them. Return the items that are done already, with
-- their outcome if an earlier attempt of the same run did them. Raise no_data_found if the caller no longer holds the run.
create or replace function onceward.mark_items(
    p_scope bigint, p_step text, p_keys text[], p_run bigint, p_lease bigint, p_organization uuid
) returns table (key text, earlier text)
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_marked text[];
begin
    perform from onceward.work w where w.id = p_run and w.lease = p_lease;
    if not found then
        raise no_data_found using message = 'the run is held by another worker';
    end if;
    with input as materialized (select k from unnest(p_keys) as i (k) order by k),  -- one order: no deadlocks
    marked as (
        insert into onceward.run_items as i (scope, step, key, run_id, lease, outcome, organization_id)
        select p_scope, p_step, k, p_run, p_lease, 'success', p_organization from input
        on conflict on constraint run_items_pkey do update
            set run_id = excluded.run_id, lease = excluded.lease, outcome = excluded.outcome, error = null, at = excluded.at
            where i.outcome = 'failed'
        returning i.key
    )
    select array_agg(m.key) into v_marked from marked m;
    if cardinality(v_marked) = cardinality(p_keys) then
        return;
    end if;
    -- A statement of its own: it sees what another worker committed while the insert waited for it.
    return query
    select i.key, case when i.run_id = p_run and i.lease <> p_lease then i.outcome end
      from onceward.run_items i
     where i.scope = p_scope and i.step = p_step and i.key = any(p_keys) and i.key <> all(coalesce(v_marked, '{}'));
end
$$;

revoke all on function onceward.mark_items(bigint, text, text[], bigint, bigint, uuid) from public;
grant execute on function onceward.mark_items(bigint, text, text[], bigint, bigint, uuid) to onceward_app, onceward_engine;
