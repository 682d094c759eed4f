-- Return the organization of the login, if the login is a worker of one organization.
create or replace function onceward.worker_organization() returns uuid
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
select l.organization_id from onceward.worker_logins l where l.login = session_user
$$;

revoke all on function onceward.worker_organization() from public;
grant execute on function onceward.worker_organization() to onceward_sql_worker, onceward_organization_worker, onceward_engine;
