-- Return the next lines of an account in the order of posting, each with the balance after it.
with account as (
    select id, debit_normal from onceward.ledger_accounts where organization_id = $1 and code = $2 and currency = $3
), lines as (
    select e.id, e.journal_id, e.credit_id as other, e.amount * case when a.debit_normal then 1 else -1 end as amount
    from account a join onceward.ledger_entries e on e.debit_id = a.id and not e.pending
    union all
    select e.id, e.journal_id, e.debit_id, e.amount * case when a.debit_normal then -1 else 1 end
    from account a join onceward.ledger_entries e on e.credit_id = a.id and not e.pending
), page as (
    select * from lines where id > $4 order by id limit $5
), opening as (
    select coalesce(sum(amount), 0) as balance from lines where id <= $4
)
select p.id, p.journal_id, j.kind, j.key, j.memo, o.code as other, p.amount, j.created_at, j.caused_by,
       (select balance from opening) + sum(p.amount) over (order by p.id) as balance
from page p
join onceward.ledger_journals j on j.id = p.journal_id
join onceward.ledger_accounts o on o.id = p.other
order by p.id
