-- Add the posted entries with ids above p_after up to p_through to the checkpoints, and return how many there were.
create or replace function onceward.ledger_fold(p_after bigint, p_through bigint) returns bigint
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    folded bigint;
begin
    with fresh as (
        select organization_id, debit_id, credit_id, amount from onceward.ledger_entries
        where id > p_after and id <= p_through and not pending
    ), sums as (
        select organization_id, account_id, sum(debit) as debits, sum(credit) as credits
        from (
            select organization_id, debit_id as account_id, amount as debit, 0 as credit from fresh
            union all
            select organization_id, credit_id, 0, amount from fresh
        ) legs
        group by organization_id, account_id
    ), written as (
        insert into onceward.ledger_checkpoints as c (account_id, organization_id, debits, credits)
        select account_id, organization_id, debits, credits from sums
        on conflict (account_id) do update
            set debits = c.debits + excluded.debits, credits = c.credits + excluded.credits
    )
    select count(*) into folded from fresh;
    return folded;
end
$$;

revoke all on function onceward.ledger_fold(bigint, bigint) from public;
