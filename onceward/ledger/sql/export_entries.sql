-- Return the posted entries of the next $5 journals of a period, after the journal $4. The journals are chosen first, in the order
-- of their ids, so a page reads its own journals only. One without posted entries is a row without an amount.
with page as materialized (
    select j.id, j.created_at, j.key, j.kind, j.memo
      from onceward.ledger_journals j
     where j.organization_id = $1 and j.created_at >= $2 and j.created_at < $3 and j.id > $4
     order by j.id limit $5
)
select j.id as journal_id, j.created_at as at, j.key, j.kind, j.memo, d.code as debit, d.kind as debit_kind,
       c.code as credit, c.kind as credit_kind, e.amount, e.currency
from page j
left join onceward.ledger_entries e on e.journal_id = j.id and not e.pending
left join onceward.ledger_accounts d on d.id = e.debit_id
left join onceward.ledger_accounts c on c.id = e.credit_id
order by j.id, e.id
