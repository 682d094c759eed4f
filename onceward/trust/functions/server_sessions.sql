-- Return the sessions in this database. A role sees when a transaction began only if the session belongs to a login whose rights it
-- has, and the engine has the rights of no login: so this function has the rights of the owner. `is_hidden` is true for a session of
-- the engine's login if that login was not granted to the owner.
create or replace function onceward.server_sessions() returns table (
    pid int, backend_type text, xact_start timestamptz, wait_event_type text, is_hidden boolean)
    language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select a.pid, a.backend_type, a.xact_start, a.wait_event_type,
           a.backend_type is null and r.oid is not null and not r.rolsuper and pg_has_role(r.oid, 'onceward_engine', 'member')
      from pg_stat_activity a left join pg_roles r on r.oid = a.usesysid
     where a.datname = current_database()
$$;

comment on function onceward.server_sessions() is
    'Return the sessions in this database, for the engine, which cannot see when their transactions began.';

revoke all on function onceward.server_sessions() from public;
grant execute on function onceward.server_sessions() to onceward_engine;
