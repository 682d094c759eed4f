-- The balances of the newest closed period of each organization are what its entries give today.
select format('account %s of the period before %s had %s/%s when it was closed, and has %s/%s', b.account_id, p.until,
       b.debits, b.credits, s.debits, s.credits)
from (select distinct on (organization_id) * from onceward.ledger_periods order by organization_id, until desc) p
cross join lateral jsonb_to_recordset(p.balances) as b (account_id bigint, debits numeric, credits numeric)
cross join lateral (
    select coalesce((select sum(e.amount) from onceward.ledger_entries e join onceward.ledger_journals j on j.id = e.journal_id
                     where e.debit_id = b.account_id and not e.pending and j.created_at < p.until), 0) as debits,
           coalesce((select sum(e.amount) from onceward.ledger_entries e join onceward.ledger_journals j on j.id = e.journal_id
                     where e.credit_id = b.account_id and not e.pending and j.created_at < p.until), 0) as credits
) s
where (b.debits, b.credits) <> (s.debits, s.credits)
limit $1
