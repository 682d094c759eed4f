-- Return how a limit of the whole instance changed and why, the newest change first.
create or replace function onceward.limit_history(
    p_name text, p_most int, out changed_at timestamptz, out before int, out after int, out reason text
) returns setof record language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select c.changed_at, c.before, c.after, c.reason from onceward.limit_changes c
     where c.name = p_name order by c.changed_at desc limit p_most
$$;

revoke all on function onceward.limit_history(text, int) from public;
grant execute on function onceward.limit_history(text, int) to onceward_app, onceward_engine;
