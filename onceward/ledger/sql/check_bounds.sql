-- Find bounded accounts whose recorded balance differs from the entries, or is below the reserved amount.
with legs as (
    select debit_id as account_id, amount, true as debit, journal_id, pending from onceward.ledger_entries
    union all
    select credit_id, amount, false, journal_id, pending from onceward.ledger_entries
), expected as (
    select a.id as account_id,
           coalesce(sum(case when l.debit = a.debit_normal then l.amount else -l.amount end)
                    filter (where not l.pending), 0) as balance,
           coalesce(sum(l.amount) filter (where l.debit <> a.debit_normal and p.journal_id is not null), 0) as reserved
    from onceward.ledger_accounts a
    left join legs l on l.account_id = a.id
    left join onceward.ledger_pending p on p.journal_id = l.journal_id
    where a.bounded
    group by a.id
)
select format('bounded account %s: recorded balance %s and reserved %s, but the entries give %s and %s',
              coalesce(b.account_id, e.account_id), b.balance, b.reserved, e.balance, e.reserved)
from onceward.ledger_bounds b
full join expected e on e.account_id = b.account_id
where (b.balance, b.reserved) is distinct from (e.balance, e.reserved) or b.balance < b.reserved
limit $1
