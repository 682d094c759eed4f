-- Note that somebody wanted a slot of a limit and got none. The adaptive limit rises only for such demand.
-- At most one write in 5 seconds, so that a flood of refusals does not queue for one row.
create or replace function onceward.limit_want(p_name text) returns void
    language sql security definer set search_path = pg_catalog, pg_temp as $$
    update onceward.limits l set wanted_at = clock_timestamp()
     where l.name = p_name and l.wanted_at < clock_timestamp() - interval '5 seconds'
$$;
revoke all on function onceward.limit_want(text) from public;
grant execute on function onceward.limit_want(text) to onceward_app, onceward_engine;
