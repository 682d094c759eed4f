-- Return how many slots are held under a key of the current organization, or under a limit of the whole instance.
create or replace function onceward.limit_count(p_key text) returns int
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select count(*)::int from onceward.limit_slots s
     where s.organization_id = onceward.limit_scope(p_key, onceward.organization()) and s.key = p_key
       and exists (select from onceward.work w where w.id = s.work_id and w.dead_reason is null)
$$;

revoke all on function onceward.limit_count(text) from public;
grant execute on function onceward.limit_count(text) to onceward_app, onceward_engine;
