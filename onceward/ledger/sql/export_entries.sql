-- Return posted entries of a period in the order of their journals, after the last entry of the previous page.
select j.id as journal_id, e.id as entry_id, j.created_at as at, j.key, j.kind, j.memo, d.code as debit, d.kind as debit_kind,
       c.code as credit, c.kind as credit_kind, e.amount, e.currency
from onceward.ledger_journals j
join onceward.ledger_entries e on e.journal_id = j.id and not e.pending
join onceward.ledger_accounts d on d.id = e.debit_id
join onceward.ledger_accounts c on c.id = e.credit_id
where j.organization_id = $1 and j.created_at >= $2 and j.created_at < $3 and (j.id, e.id) > ($4, $5)
order by j.id, e.id
limit $6
