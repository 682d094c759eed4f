-- Find journals above the id $1 whose entries do not have the recorded number and total.
select format('journal %s should have %s entries with a total of %s, but has %s with %s',
              j.id, j.entries, j.total, coalesce(e.n, 0), coalesce(e.total, 0))
from onceward.ledger_journals j
left join (
    select journal_id, count(*) as n, sum(amount) as total from onceward.ledger_entries where journal_id > $1 group by journal_id
) e on e.journal_id = j.id
where j.id > $1 and (j.entries <> coalesce(e.n, 0) or j.total <> coalesce(e.total, 0))
limit 100
