-- Return the next lines of an account in the order of posting, each with the balance after it. $4 is the last entry of the previous
-- page. It reads the lines of the page, and for the balance before them the last mark and the entries since that mark.
with account as materialized (
    select id, debit_normal from onceward.ledger_accounts where organization_id = $1 and code = $2 and currency = $3
), lines as (
    (select e.id, e.journal_id, e.credit_id as other, e.amount * case when (select debit_normal from account) then 1 else -1 end as amount
       from onceward.ledger_entries e
      where e.debit_id = (select id from account) and e.id > $4 and not e.pending order by e.id limit $5)
    union all
    (select e.id, e.journal_id, e.debit_id, e.amount * case when (select debit_normal from account) then -1 else 1 end
       from onceward.ledger_entries e
      where e.credit_id = (select id from account) and e.id > $4 and not e.pending order by e.id limit $5)
), page as (
    select * from lines order by id limit $5
), mark as materialized (
    select m.through, m.debits, m.credits from onceward.ledger_marks m
     where m.account_id = (select id from account) and m.through <= $4 order by m.through desc limit 1
), marked as materialized (  -- row-level security lets no condition with coalesce() use an index
    select coalesce((select through from mark), 0) as id, coalesce((select debits - credits from mark), 0) as balance
), opening as (
    select case when a.debit_normal then 1 else -1 end
           * ((select balance from marked)
              + (select coalesce(sum(e.amount), 0) from onceward.ledger_entries e
                  where e.debit_id = a.id and e.id > (select id from marked) and e.id <= $4 and not e.pending)
              - (select coalesce(sum(e.amount), 0) from onceward.ledger_entries e
                  where e.credit_id = a.id and e.id > (select id from marked) and e.id <= $4 and not e.pending))
           as balance
      from account a
)
select p.id, p.journal_id, j.kind, j.key, j.memo, o.code as other, p.amount, j.created_at, j.caused_by,
       (select balance from opening) + sum(p.amount) over (order by p.id) as balance
from page p
join onceward.ledger_journals j on j.id = p.journal_id
join onceward.ledger_accounts o on o.id = p.other
order by p.id
