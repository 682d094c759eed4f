-- Return the organization of the login, if the login belongs to one organization. SET ROLE does not change session_user.
create or replace function onceward.login_organization() returns uuid
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
select l.organization_id from onceward.sql_logins l where l.login = session_user
$$;

revoke all on function onceward.login_organization() from public;
grant execute on function onceward.login_organization()
    to onceward_sql_worker, onceward_organization_worker, onceward_engine;
