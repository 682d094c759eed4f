-- Free the slots of work that will wait. The work has to reserve them again before it continues.
-- The app role can release only for work of its current organization.
create or replace function onceward.limit_release(p_work bigint) returns int
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_freed int;
begin
    if current_setting('role') in ('onceward_app', 'onceward_sql_worker') and not exists (
        select from onceward.work w where w.id = p_work and w.organization_id is not distinct from onceward.organization()) then
        raise exception 'work % is not unfinished work of this organization', p_work using errcode = '22023';
    end if;
    update onceward.limit_slots s set work_id = 0 where s.work_id = p_work;
    get diagnostics v_freed = row_count;
    return v_freed;
end
$$;
revoke all on function onceward.limit_release(bigint) from public;
grant execute on function onceward.limit_release(bigint) to onceward_app, onceward_engine;
