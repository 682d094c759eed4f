-- Add the posted entries with ids above p_after up to p_through to the checkpoints, and return how many there were. Whenever an account
-- has 1,000 entries more, a mark keeps its sums up to p_through.
create or replace function onceward.ledger_fold(p_after bigint, p_through bigint) returns bigint
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    folded bigint;
begin
    with fresh as (
        select organization_id, debit_id, credit_id, amount from onceward.ledger_entries
        where id > p_after and id <= p_through and not pending
    ), sums as (
        select organization_id, account_id, sum(debit) as debits, sum(credit) as credits, count(*) as entries
        from (
            select organization_id, debit_id as account_id, amount as debit, 0 as credit from fresh
            union all
            select organization_id, credit_id, 0, amount from fresh
        ) legs
        group by organization_id, account_id
    ), written as (
        insert into onceward.ledger_checkpoints as c (account_id, organization_id, debits, credits, unmarked)
        select account_id, organization_id, debits, credits, case when entries < 1000 then entries else 0 end from sums
        on conflict (account_id) do update
            set debits = c.debits + excluded.debits, credits = c.credits + excluded.credits,
                unmarked = case when excluded.unmarked > 0 and c.unmarked + excluded.unmarked < 1000
                                then c.unmarked + excluded.unmarked else 0 end
        returning c.account_id, c.organization_id, c.debits, c.credits, c.unmarked
    ), marked as (
        insert into onceward.ledger_marks (account_id, through, organization_id, debits, credits)
        select account_id, p_through, organization_id, debits, credits from written where unmarked = 0
    )
    select count(*) into folded from fresh;
    return folded;
end
$$;

revoke all on function onceward.ledger_fold(bigint, bigint) from public;
