-- Find checkpoints that differ from the sum of the entries up to them: $2 are the sums of the entries up to the id $1, as an
-- array of account, debits and credits, which an earlier check has proven.
with horizon as (
    select through from onceward.ledger_horizon
), legs as (
    select debit_id as account_id, amount as debit, 0 as credit
    from onceward.ledger_entries, horizon where id > $1 and id <= through and not pending
    union all
    select credit_id, 0, amount
    from onceward.ledger_entries, horizon where id > $1 and id <= through and not pending
    union all
    select (p ->> 0)::bigint, (p ->> 1)::numeric, (p ->> 2)::numeric from jsonb_array_elements($2::jsonb) p
), sums as (
    select account_id, sum(debit) as debits, sum(credit) as credits from legs group by account_id
)
select format('account %s: the checkpoint has debits %s, credits %s; the entries sum to %s, %s', coalesce(c.account_id, s.account_id),
              c.debits, c.credits, s.debits, s.credits)
from onceward.ledger_checkpoints c
full join sums s on s.account_id = c.account_id
where (c.debits, c.credits) is distinct from (s.debits, s.credits)
limit 100
