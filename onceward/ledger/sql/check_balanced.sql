-- Find organizations and currencies whose debits and credits in journals above the id $1 differ.
with sums as (
    select debit_id as account_id, sum(amount) as debits, 0 as credits
    from onceward.ledger_entries where not pending and journal_id > $1 group by debit_id
    union all
    select credit_id, 0, sum(amount)
    from onceward.ledger_entries where not pending and journal_id > $1 group by credit_id
)
select format('organization %s, %s: debits %s, credits %s', a.organization_id, a.currency, sum(debits), sum(credits))
from sums s join onceward.ledger_accounts a on a.id = s.account_id
group by a.organization_id, a.currency
having sum(debits) <> sum(credits)
limit 100
