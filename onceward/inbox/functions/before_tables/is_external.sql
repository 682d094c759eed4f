-- Return whether programs outside Onceward handle the events of a source. Policies on webhook_events use this function.
create or replace function onceward.is_external(p_webhook_id uuid) returns boolean
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
select coalesce((select s.mode = 'external' from onceward.sources s where s.webhook_id = p_webhook_id), true)
$$;

revoke all on function onceward.is_external(uuid) from public;
grant execute on function onceward.is_external(uuid) to onceward_sql_worker, onceward_engine;
