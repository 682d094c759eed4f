-- Lock accounts in order of their ids, the only order in which accounts are locked. Accounts without a bound have no row to
-- lock.
create or replace function onceward.ledger_lock(p_accounts bigint[]) returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform 1 from onceward.ledger_bounds where account_id = any (p_accounts) order by account_id for no key update;
end
$$;

comment on function onceward.ledger_lock(bigint[]) is
    'Lock accounts in order of their ids, the only order in which accounts are locked. Accounts without a bound have no row to lock.';
revoke all on function onceward.ledger_lock(bigint[]) from public;
