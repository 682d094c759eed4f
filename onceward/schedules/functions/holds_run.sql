-- Return whether the run is held under this lease. The answer stays true until the end of the transaction: a rescue waits
-- for it.
create or replace function onceward.holds_run(p_run bigint, p_lease bigint) returns boolean
    language sql security definer set search_path = pg_catalog, pg_temp as $$
    select exists (select from onceward.work w where w.id = p_run and w.lease = p_lease for share)
$$;

revoke all on function onceward.holds_run(bigint, bigint) from public;
grant execute on function onceward.holds_run(bigint, bigint) to onceward_app, onceward_engine;
