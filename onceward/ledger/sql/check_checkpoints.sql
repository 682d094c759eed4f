-- Find checkpoints that differ from the sum of the entries up to them.
with sums as (
    select account_id, sum(debit) as debits, sum(credit) as credits
    from (
        select debit_id as account_id, amount as debit, 0 as credit
        from onceward.ledger_entries, onceward.ledger_horizon where id <= through and not pending
        union all
        select credit_id, 0, amount
        from onceward.ledger_entries, onceward.ledger_horizon where id <= through and not pending
    ) legs
    group by account_id
)
select format('account %s: the checkpoint has debits %s, credits %s; the entries sum to %s, %s', coalesce(c.account_id, s.account_id),
              c.debits, c.credits, s.debits, s.credits)
from onceward.ledger_checkpoints c
full join sums s on s.account_id = c.account_id
where (c.debits, c.credits) is distinct from (s.debits, s.credits)
limit $1
