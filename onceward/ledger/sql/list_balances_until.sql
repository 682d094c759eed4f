-- Return the balances of an organization as they were before a time: those of now, less what was posted since.
with later as materialized (
    select e.debit_id, e.credit_id, sum(e.amount) as amount
    from onceward.ledger_journals j
    join onceward.ledger_entries e on e.journal_id = j.id and not e.pending
    where j.organization_id = $1 and j.created_at >= $3
    group by e.debit_id, e.credit_id
), moved as (
    select account_id, sum(debits) as debits, sum(credits) as credits
    from (select debit_id as account_id, amount as debits, 0 as credits from later
          union all select credit_id, 0, amount from later) s
    group by account_id
)
select b.account_id, b.code, b.currency, b.kind, b.debits - coalesce(m.debits, 0) as debits,
       b.credits - coalesce(m.credits, 0) as credits, 0 as pending_debits, 0 as pending_credits,
       case when b.kind in ('asset', 'expense') then 1 else -1 end
           * (b.debits - coalesce(m.debits, 0) - b.credits + coalesce(m.credits, 0)) as balance
from onceward.ledger_balances b
left join moved m on m.account_id = b.account_id
where b.organization_id = $1 and ($2::text is null or b.currency = $2)
order by b.currency, b.code
