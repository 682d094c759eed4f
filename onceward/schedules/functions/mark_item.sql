-- Mark an item of a run within the item's own transaction, which runs as the app role. The verdict is one of:
-- 'marked': the item was not done before, and this caller does it; a second caller waits for the end of the transaction;
-- 'done': the item is done; `earlier` is the outcome if an earlier attempt of the same run did it, else null;
-- 'lost': the caller no longer holds the run, and nothing was marked.
create or replace function onceward.mark_item(
    p_scope bigint, p_step text, p_key text, p_run bigint, p_lease bigint, p_outcome text, p_error jsonb,
    p_organization uuid,
    out verdict text, out earlier text
) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform from onceward.work w where w.id = p_run and w.lease = p_lease;
    if not found then
        verdict := 'lost';
        return;
    end if;
    insert into onceward.run_items as i (scope, step, key, run_id, lease, outcome, error, organization_id)
    values (p_scope, p_step, p_key, p_run, p_lease, p_outcome, p_error, p_organization)
    on conflict (scope, step, key) do update
        set run_id = excluded.run_id, lease = excluded.lease, outcome = excluded.outcome, error = excluded.error, at = excluded.at
        where i.outcome = 'failed';
    if found then
        verdict := 'marked';
        return;
    end if;
    verdict := 'done';
    select i.outcome into earlier from onceward.run_items i
     where i.scope = p_scope and i.step = p_step and i.key = p_key and i.run_id = p_run and i.lease <> p_lease;
end
$$;

revoke all on function onceward.mark_item(bigint, text, text, bigint, bigint, text, jsonb, uuid) from public;
grant execute on function onceward.mark_item(bigint, text, text, bigint, bigint, text, jsonb, uuid)
    to onceward_app, onceward_engine;
