-- Find pending journals that are not listed as pending, and ended ones that are.
with open as (
    select id from onceward.ledger_journals j
    where kind = 'pending'
      and not exists (select from onceward.ledger_journals e where e.about = j.id and e.kind in ('settlement', 'void'))
)
select format('journal %s is %s', coalesce(p.journal_id, o.id),
              case when o.id is null then 'listed as pending, but has ended' else 'pending, but not listed in ledger_pending' end)
from onceward.ledger_pending p
full join open o on o.id = p.journal_id
where p.journal_id is null or o.id is null
limit $1
