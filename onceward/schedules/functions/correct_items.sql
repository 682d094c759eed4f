-- Change the outcome of items that this attempt marked as done: the function knows after the work which ones it skipped, and
-- which ones count as failed.
create or replace function onceward.correct_items(
    p_scope bigint, p_step text, p_run bigint, p_lease bigint, p_skipped text[], p_failed text[], p_errors text[]
) returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
    update onceward.run_items i set outcome = 'skipped'
     where i.scope = p_scope and i.step = p_step and i.key = any(p_skipped) and i.run_id = p_run and i.lease = p_lease;
    update onceward.run_items i
       set outcome = 'failed', error = jsonb_build_object('type', 'Failed', 'message', f.message)
      from unnest(p_failed, p_errors) as f (key, message)
     where i.scope = p_scope and i.step = p_step and i.key = f.key and i.run_id = p_run and i.lease = p_lease;
$$;

revoke all on function onceward.correct_items(bigint, text, bigint, bigint, text[], text[], text[]) from public;
grant execute on function onceward.correct_items(bigint, text, bigint, bigint, text[], text[], text[])
    to onceward_app, onceward_engine;
