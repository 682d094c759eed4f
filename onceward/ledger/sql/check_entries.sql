-- Find entries of journals above the id $1 that do not fit their journal or their accounts.
select format('entry %s of journal %s: wrong journal, wrong organization or currency of an account, or invalid amount',
              e.id, e.journal_id)
from onceward.ledger_entries e
left join onceward.ledger_journals j on j.id = e.journal_id and j.organization_id = e.organization_id
left join onceward.ledger_accounts d
    on d.id = e.debit_id and d.organization_id = e.organization_id and d.currency = e.currency
left join onceward.ledger_accounts c
    on c.id = e.credit_id and c.organization_id = e.organization_id and c.currency = e.currency
where e.journal_id > $1
  and (j.id is null or d.id is null or c.id is null or e.amount < 1 or e.debit_id = e.credit_id
       or e.pending <> (j.kind = 'pending') or (e.origin is not null) <> (j.about is not null))
limit 100
