-- Jobs in other languages, for logins of `onceward sql-logins` and members of onceward_sql_worker. A login of one organization gets jobs
-- of that organization only. Call them in the transaction that has the effects of the job: both are committed, or neither.
create or replace function onceward.serves_everybody() returns boolean
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (select from onceward.sql_logins l where l.login = session_user) then
        return false;
    end if;
    if pg_has_role(session_user, 'onceward_sql_worker', 'member') or pg_has_role(session_user, 'onceward_engine', 'member') then
        return true;
    end if;
    raise exception 'the login % belongs to no organization', session_user
        using errcode = '42501', hint = 'onceward sql-logins add, or grant onceward_sql_worker';
end
$$;
revoke all on function onceward.serves_everybody() from public;
grant execute on function onceward.serves_everybody() to onceward_engine;

create or replace function onceward.claim_jobs(
    tasks text[], most int default 1, lease_s double precision default null, worker text default null
) returns table (
    id bigint, lease bigint, task text, args jsonb, attempt int, expires_at timestamptz, cursor jsonb, tags text[], organization_id uuid,
    caused_by bigint, trace text
) language sql security definer set search_path = pg_catalog, pg_temp as $$
select * from onceward.claim_external(tasks, most, lease_s, worker, onceward.serves_everybody(), onceward.login_organization())
$$;

create or replace function onceward.heartbeat_job(id bigint, lease bigint, lease_s double precision default null) returns text
    language sql security definer set search_path = pg_catalog, pg_temp as $$
select onceward.heartbeat_external(id, lease, lease_s, onceward.serves_everybody(), onceward.login_organization())
$$;

create or replace function onceward.checkpoint_job(id bigint, lease bigint, cursor jsonb) returns void
    language sql security definer set search_path = pg_catalog, pg_temp as $$
select onceward.checkpoint_external(id, lease, cursor, onceward.serves_everybody(), onceward.login_organization())
$$;

create or replace function onceward.finish_job(id bigint, lease bigint, result jsonb default null) returns text
    language sql security definer set search_path = pg_catalog, pg_temp as $$
select onceward.settle_external(id, lease, 'success', result, null, null, onceward.serves_everybody(), onceward.login_organization())
$$;

create or replace function onceward.fail_job(
    id bigint, lease bigint, error text, retry_s double precision default null, permanent boolean default false
) returns text language sql security definer set search_path = pg_catalog, pg_temp as $$
select onceward.settle_external(id, lease, case when permanent then 'permanent' else 'failed' end, null, error, retry_s,
                                onceward.serves_everybody(), onceward.login_organization())
$$;

create or replace function onceward.release_job(id bigint, lease bigint) returns text
    language sql security definer set search_path = pg_catalog, pg_temp as $$
select onceward.settle_external(id, lease, 'released', null, 'released', 0, onceward.serves_everybody(), onceward.login_organization())
$$;

revoke all on function onceward.claim_jobs(text[], int, double precision, text) from public;
revoke all on function onceward.heartbeat_job(bigint, bigint, double precision) from public;
revoke all on function onceward.checkpoint_job(bigint, bigint, jsonb) from public;
revoke all on function onceward.finish_job(bigint, bigint, jsonb) from public;
revoke all on function onceward.fail_job(bigint, bigint, text, double precision, boolean) from public;
revoke all on function onceward.release_job(bigint, bigint) from public;
grant execute on function onceward.claim_jobs(text[], int, double precision, text)
    to onceward_sql_worker, onceward_organization_worker, onceward_engine;
grant execute on function onceward.heartbeat_job(bigint, bigint, double precision)
    to onceward_sql_worker, onceward_organization_worker, onceward_engine;
grant execute on function onceward.checkpoint_job(bigint, bigint, jsonb)
    to onceward_sql_worker, onceward_organization_worker, onceward_engine;
grant execute on function onceward.finish_job(bigint, bigint, jsonb)
    to onceward_sql_worker, onceward_organization_worker, onceward_engine;
grant execute on function onceward.fail_job(bigint, bigint, text, double precision, boolean)
    to onceward_sql_worker, onceward_organization_worker, onceward_engine;
grant execute on function onceward.release_job(bigint, bigint)
    to onceward_sql_worker, onceward_organization_worker, onceward_engine;
