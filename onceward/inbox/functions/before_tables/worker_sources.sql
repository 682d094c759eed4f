-- Return the external sources whose events the login may handle. Null: all of them, for a login of the whole installation.
-- session_user is the login; SET ROLE does not change it.
create or replace function onceward.worker_sources() returns uuid[]
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
select case
           when l.login is not null then
               array(select s.webhook_id from onceward.sources s where s.organization_id = l.organization_id and s.mode = 'external')
           when pg_has_role(session_user, 'onceward_sql_worker', 'member') then null
           when pg_has_role(session_user, 'onceward_engine', 'member') then null
           else '{}'
       end
  from (values (session_user)) caller (login) left join onceward.sql_logins l using (login)
$$;

revoke all on function onceward.worker_sources() from public;
grant execute on function onceward.worker_sources() to onceward_sql_worker, onceward_organization_worker, onceward_engine;
